"""``python -m isoscope``: the command line."""

import sys

from isoscope.cli import main

if __name__ == "__main__":
    sys.exit(main())
