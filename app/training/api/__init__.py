"""Data sets, dry runs and the queue over the API."""
