"""Measure files at the command line, without a server."""

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from isoscope.core.errors import IsoscopeError, UnavailableError
from isoscope.threads import wait_briefly
from isotropy.catalog import MEASURES, Similarity


def score_arguments(command: ArgumentParser) -> None:
    """Add the arguments of ``isoscope score``."""
    add_file_arguments(command)
    command.add_argument("--measures", type=_measures, metavar="SLUGS", help="measure only these, separated by commas")
    command.add_argument(
        "--similarity",
        choices=[one.value for one in Similarity],
        default=Similarity.EUCLIDEAN.value,
        help="how neighbors are compared, for hubness and intrinsic dimension",
    )


def score(given: Namespace) -> int:
    """Print the measures of the files that were named."""
    wait_briefly()
    # Here, not above: it brings torch, which the other commands do without.
    try:
        from isoscope.score import print_score  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    return print_score(given)


def check_arguments(command: ArgumentParser) -> None:
    """Add the arguments of ``isoscope check``."""
    add_file_arguments(command)
    command.add_argument("--baseline", type=Path, metavar="FILE", help="earlier embedding to check for drift")
    command.add_argument(
        "--same-rows",
        action="store_true",
        help="match rows by position (default: by name)",
    )
    command.add_argument(
        "--fail-on",
        choices=("note", "warning", "error"),
        default="error",
        help="exit 1 on a finding of this severity or worse",
    )


def check(given: Namespace) -> int:
    """Say what is wrong with the vectors of a file: exit 1 on a finding of --fail-on, 2 if they cannot be read."""
    wait_briefly()
    try:
        try:
            from isoscope.check import print_check  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise _missing(error) from error
        return print_check(given)
    except IsoscopeError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def add_file_arguments(command: ArgumentParser) -> None:
    """Add the arguments that say which vectors of which files are meant."""
    command.add_argument("files", nargs="+", type=Path, metavar="FILE", help="vectors, in the order of their rows")
    command.add_argument(
        "--vectors", type=parse_names, metavar="NAME", help="array, or columns separated by commas (default: detected)"
    )
    command.add_argument("--labels", metavar="COL", help="column or array of labels")
    command.add_argument("--groups", metavar="COL", help="column that groups dependent rows")
    command.add_argument(
        "--annotations", type=Path, metavar="FILE", help="file of labels or groups, one row per vector"
    )
    command.add_argument("--transpose", action="store_true", help="treat columns as samples")
    command.add_argument("--seed", type=parse_seed, default=0, help="seed for sampling pairs")
    command.add_argument("--json", action="store_true", help="print one JSON document")


def _missing(error: ModuleNotFoundError) -> Exception:
    """Return what to install, or the error itself where a module of ours is missing."""
    if str(error.name).partition(".")[0] in ("isoscope", "isotropy"):
        return error
    return UnavailableError(
        f"Measuring needs {error.name}, which is not installed: pip install 'isoscope[files,torch]'"
    )


def parse_seed(text: str) -> int:
    """Read a seed; raises ArgumentTypeError for what is none."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"expected a whole number from 0, got {text!r}")
    return int(text)


def parse_names(text: str) -> list[str]:
    """Split names at commas."""
    return [name for part in text.split(",") if (name := part.strip())]


def _measures(text: str) -> list[str]:
    slugs = parse_names(text)
    for slug in slugs:
        if slug not in MEASURES:
            raise ArgumentTypeError(f"there is no measure {slug!r}: choose among {', '.join(MEASURES)}")
    return slugs
