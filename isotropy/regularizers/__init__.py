"""Training penalties: torch modules that take points [n, d] and return a scalar to add to the loss."""
