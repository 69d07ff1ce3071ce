"""Encoding: texts through a model, every layer of which becomes an embedding."""
