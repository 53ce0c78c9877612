"""Floor 1: numbers in, numbers out. No files, no network, no global state."""
