"""Models of text: roles, the embedder, causal language models in process."""
