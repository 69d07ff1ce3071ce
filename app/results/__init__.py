"""Results of runs: tables, statistics, conclusions, figures, search, and archives of experiments."""
