"""Means and 95% intervals as a paper prints them."""
