"""Floor 3: the methods of the papers, from texts to frozen results."""
