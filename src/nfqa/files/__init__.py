"""Where texts come from: the registry of upstream files, fetching, readers; records of both papers."""
