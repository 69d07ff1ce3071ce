"""The command line: a dashboard on this machine (serve, migrate, doctor), files (score), and a dashboard anywhere."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError
from pydantic_settings import SettingsError
from sqlalchemy.exc import SQLAlchemyError

from app.db.session import cause
from app.operations.checks.settings import sentences
from app.operations.doctor import doctor
from app.operations.migrate import migrate
from app.operations.serve import say, serve
from app.settings import Settings
from isoscope.commands import add_commands
from isoscope.commands.backup import add_backup_commands
from isoscope.core.errors import IsoscopeError, UnavailableError
from isoscope.threads import wait_briefly
from isotropy.catalog import MEASURES


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
    except KeyboardInterrupt:
        return 130  # as the shell says of a command that SIGINT ended
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
    add_backup_commands(commands)
    add_commands(commands)
    _add_score(commands.add_parser("score", help="measure the vectors of files, without a server"))
    return parser


def _add_score(command: argparse.ArgumentParser) -> None:
    command.add_argument("files", nargs="+", type=Path, metavar="FILE", help="vectors, in the order of their rows")
    command.add_argument(
        "--vectors", type=_names, metavar="NAME", help="the array, or columns with commas, if not the likeliest"
    )
    command.add_argument("--labels", metavar="COL", help="the column or array that labels the rows")
    command.add_argument("--groups", metavar="COL", help="the column of groups of rows that depend on each other")
    command.add_argument(
        "--annotations", type=Path, metavar="FILE", help="a file of labels or groups, a row for each vector"
    )
    command.add_argument("--transpose", action="store_true", help="take the columns as samples")
    command.add_argument("--measures", type=_measures, metavar="SLUGS", help="only these, with commas")
    command.add_argument("--seed", type=_seed, default=0, help="of the sample that pairs are taken from")
    command.add_argument("--json", action="store_true", help="print one JSON document")
    command.set_defaults(run=_score)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number from 0, got {text!r}")
    return int(text)


def _names(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def _measures(text: str) -> list[str]:
    slugs = _names(text)
    for slug in slugs:
        if slug not in MEASURES:
            raise argparse.ArgumentTypeError(f"there is no measure {slug!r}: choose among {', '.join(MEASURES)}")
    return slugs


def _score(given: argparse.Namespace) -> int:
    wait_briefly()
    # Here, not above: it brings torch, which the other commands do without and an installation of the web has not.
    try:
        from isoscope.score import score  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] in ("app", "isoscope", "isotropy", "workers"):
            raise
        raise UnavailableError(
            f"Measuring needs {error.name}, which is not installed: pip install -e '.[worker]' in Isoscope's folder."
        ) from error
    return score(given)


def _migrate(_: argparse.Namespace) -> int:
    migrate(Settings())
    say("both databases are up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
