"""Rows: the SQLAlchemy models and sessions that web process and workers share."""
