"""What two notebooks share beyond the methods of the papers."""
