"""The language that runs are searched in: what is typed, the fields it names, the rows that are meant."""
