"""Statistics of a few runs: means with errors, contrasts, rank correlations. Pure functions on NumPy arrays."""
