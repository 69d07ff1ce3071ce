"""The documentation, rendered from Markdown."""
