"""Operate a dashboard: serve, migrate, check an installation, back up and restore."""
