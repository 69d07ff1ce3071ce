"""What a few runs allow to be said: means with their errors, correlations, paired differences. NumPy only, pure."""
