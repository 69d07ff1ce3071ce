"""Measure files at the command line, without a server."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from isoscope.core.errors import UnavailableError
from isoscope.threads import wait_briefly
from isotropy.catalog import MEASURES


def score_arguments(command: ArgumentParser) -> None:
    """Add the arguments of ``isoscope score``."""
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


def score(given: Namespace) -> int:
    """Print the measures of the files that were named."""
    wait_briefly()
    # Here, not above: it brings torch, which the other commands do without.
    try:
        from isoscope.score import print_score  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] in ("isoscope", "isotropy"):
            raise
        raise UnavailableError(
            f"Measuring needs {error.name}, which is not installed: pip install 'isoscope[files,torch]'"
        ) from error
    return print_score(given)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"expected a whole number from 0, got {text!r}")
    return int(text)


def _names(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def _measures(text: str) -> list[str]:
    slugs = _names(text)
    for slug in slugs:
        if slug not in MEASURES:
            raise ArgumentTypeError(f"there is no measure {slug!r}: choose among {', '.join(MEASURES)}")
    return slugs
