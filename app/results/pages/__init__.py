"""Pages of experiments and runs."""
