"""Pages of embeddings."""
