"""Conclusions from a sweep: tests, their inputs, and sentences."""
