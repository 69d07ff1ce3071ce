"""What runs say: in sets and sweeps, as statistics, conclusions and tables."""
