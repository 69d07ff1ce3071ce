"""Training options, one record each: type, bounds, wording, and the runs that it affects."""
