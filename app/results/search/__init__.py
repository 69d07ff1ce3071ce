"""The search of runs: its language, its fields, and the rows that match."""
