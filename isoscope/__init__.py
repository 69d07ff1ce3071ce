"""What a person types: the command line and the supervisor behind ``isoscope serve``."""
