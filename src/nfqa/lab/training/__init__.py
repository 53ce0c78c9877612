"""Training of the embedded evaluators: run by `make train-evaluator` alone, never by a notebook."""
