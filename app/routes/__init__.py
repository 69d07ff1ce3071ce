"""HTTP in, HTTP out: HTML pages and the JSON API, both thin over the same services."""
