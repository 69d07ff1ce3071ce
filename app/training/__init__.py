"""Launching runs: equivalent commands, outcomes of searches, advice after failures."""
