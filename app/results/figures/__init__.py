"""Figures of runs: rows in, figure out. Nothing here reads a database or a request."""
