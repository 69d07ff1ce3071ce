"""Shared foundations of app: settings, validation messages, the process."""
