"""Encodings: their reports by layer."""
