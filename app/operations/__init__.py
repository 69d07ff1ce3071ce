"""Operate a dashboard: serve, migrate, look what an installation lacks, back up and restore."""
