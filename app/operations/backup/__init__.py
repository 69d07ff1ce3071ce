"""Backups of a dashboard while it runs, and their way back: databases, stored files, checkpoints of running runs."""
