"""The command line: ``isoscope serve``, ``isoscope migrate``, ``isoscope doctor``."""

import argparse
import sys
from collections.abc import Callable

from pydantic import ValidationError
from pydantic_settings import SettingsError
from sqlalchemy.exc import SQLAlchemyError

from app.db.session import cause
from app.errors import IsoscopeError
from app.settings import Settings
from isoscope.checks.settings import sentences
from isoscope.doctor import doctor
from isoscope.migration import migrate
from isoscope.serve import say, serve


def main() -> int:
    """Parse the command and run it; the exit code is the process's."""
    arguments = _parser().parse_args()
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return run(arguments)
    except (ValidationError, SettingsError) as error:
        for sentence in sentences(error):
            sys.stderr.write(f"{sentence}\n")
        return 2
    except IsoscopeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except SQLAlchemyError as error:
        sys.stderr.write(f"The databases cannot be used: {cause(error)}. To find out why: isoscope doctor\n")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="isoscope", description="A dashboard for isotropy.")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("serve", help="start the dashboard and a worker on this machine")
    command.set_defaults(run=lambda _: serve(Settings()))
    command = commands.add_parser("migrate", help="create or upgrade both databases, and exit")
    command.set_defaults(run=_migrate)
    command = commands.add_parser("doctor", help="look at the installation and say what to do; exit 1 on a problem")
    command.add_argument("--json", action="store_true", help="print one JSON document")
    command.add_argument("--worker", action="store_true", help="look only whether this machine's worker is alive")
    command.set_defaults(run=lambda given: doctor(as_json=given.json, worker_only=given.worker))
    return parser


def _migrate(_: argparse.Namespace) -> int:
    migrate(Settings())
    say("both databases are up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
