"""Rows: the SQLAlchemy models and sessions that the web process and workers share."""
