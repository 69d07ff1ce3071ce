"""The import job: write an exported experiment in short transactions, hidden until it is complete."""
