"""What a sweep allows to be concluded: the numbers, what they rest on, and the same in words."""
