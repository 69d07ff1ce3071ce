"""Training options, each one record: its type and bounds, its words, and the runs to which it means something."""
