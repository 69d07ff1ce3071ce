"""Tasks that judge vectors by ground truth, to choose post-processing, dimensions and storage."""
