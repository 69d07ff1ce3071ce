"""Write an experiment with all its runs as a zip file, which isoscope import takes in elsewhere."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from isoscope.client import Isoscope
from isoscope.output import write, write_json

HELP = "write an experiment as a zip file"


def add_arguments(command: ArgumentParser) -> None:
    """Add the arguments."""
    command.add_argument("experiment", metavar="EXPERIMENT", help="its name, or its id, which is in its address")
    command.add_argument("-o", "--output", type=Path, metavar="FILE", help="if not its id with .zip")


def run(isoscope: Isoscope, given: Namespace) -> int:
    """Write it, and print where it is."""
    found = isoscope.find_experiment(given.experiment)
    written = isoscope.export_experiment(found, given.output or Path(f"{found['id']}.zip"))
    return write_json({"file": str(written)}) if given.json else write([str(written)])
