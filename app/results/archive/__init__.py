"""An experiment as a zip file: its records, and how to write and check it."""
