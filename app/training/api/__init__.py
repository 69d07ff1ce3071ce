"""Data sets and the queue over the API."""
