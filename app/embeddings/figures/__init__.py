"""Figures of embeddings: stored measurements in, figure out."""
