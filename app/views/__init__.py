"""Saved views: what a page shows, kept under a short address."""
