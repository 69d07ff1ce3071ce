"""The import job: an exported experiment in, its rows written in short transactions, hidden until all are there."""
