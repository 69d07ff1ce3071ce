"""Write what a finished run predicted for each validation row as CSV: isoscope predictions RUN -o predictions.csv."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from isoscope.client import Isoscope
from isoscope.output import write, write_json

HELP = "write the predictions of a run"


def add_arguments(command: ArgumentParser) -> None:
    """Add the arguments."""
    command.add_argument("run_id", metavar="RUN", help="its id, which is in its address")
    command.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: predictions-RUN.csv")


def run(isoscope: Isoscope, given: Namespace) -> int:
    """Write them, and print where they are; with --json print the rows instead."""
    if given.json:
        return write_json(list(isoscope.predictions(given.run_id)))
    target = given.output or Path(f"predictions-{given.run_id}.csv")
    return write([str(isoscope.download_predictions(given.run_id, target))])
