"""What the notebooks call: one module a study, each turning data sets into rows of results."""
