"""Jobs of embeddings: inspect, measure, look up, compute curves."""
