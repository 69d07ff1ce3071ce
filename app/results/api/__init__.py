"""Experiments and runs over the API."""
