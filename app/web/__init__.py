"""HTTP for all features: templates, access, headers, error responses, dependencies of routes."""
