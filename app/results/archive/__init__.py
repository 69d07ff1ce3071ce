"""An experiment as one zip file: what is in it, how it is written, and how one that came from outside is read."""
