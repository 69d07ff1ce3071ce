"""Tasks that judge vectors: their ground truth, and which post-processing, dimensions and storage to take."""
