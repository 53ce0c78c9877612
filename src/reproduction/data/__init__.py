"""Upstream files by commit and hash, and their readers."""
