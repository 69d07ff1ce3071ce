"""HTTP below the features: templates, who gets in, headers, error responses, what routes ask for."""
