"""Means and standard deviations as a paper prints them."""
