"""Users' descriptions of embeddings and experiments: name, notes, tags."""
