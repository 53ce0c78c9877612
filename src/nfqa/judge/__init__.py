"""Asking a language model: prompts, the journal of verdicts, servers."""
