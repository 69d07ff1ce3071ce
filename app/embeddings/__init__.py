"""Embeddings: upload or encode, measure, report, compare."""
