"""Training of the embedded evaluators: run by `make train-evaluator` alone; the package needs nothing of it."""
