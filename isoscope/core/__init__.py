"""Shared by all packages: errors for users, formatted numbers and names, kinds of tasks."""
