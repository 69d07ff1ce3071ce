"""Figures of runs. No function here reads a database or a request."""
