"""Data sets, launching runs, the queue, and advice after failures."""
