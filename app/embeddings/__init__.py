"""Embeddings: their reports, and several side by side."""
