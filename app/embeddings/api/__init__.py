"""Embeddings over the API."""
