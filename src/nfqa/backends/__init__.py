"""Floor 2: what turns text into numbers."""
