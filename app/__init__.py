"""The web application, and what it shares with the workers: settings, rows, files, formats, the job queue."""

VERSION = "0.2.0"
