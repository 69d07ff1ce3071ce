"""The command line: ``isoscope serve``."""

import argparse
import sys

from pydantic import ValidationError

from app.errors import IsoscopeError
from app.settings import Settings
from isoscope.serve import serve


def main() -> int:
    """Parse the command and run it; the exit code is the process's."""
    parser = argparse.ArgumentParser(prog="isoscope", description="A dashboard for isotropy.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("serve", help="start the dashboard and a worker on this machine")
    parser.parse_args()
    try:
        settings = Settings()
    except ValidationError as error:
        for problem in error.errors():
            setting = "".join(f"ISOSCOPE_{str(part).upper()}: " for part in problem["loc"][:1])
            sys.stderr.write(f"{setting}{str(problem['msg']).removeprefix('Value error, ')}\n")
        return 2
    try:
        return serve(settings)
    except IsoscopeError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
