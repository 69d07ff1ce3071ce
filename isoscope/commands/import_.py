"""Take in an experiment that isoscope export, or its page, wrote on another dashboard."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from isoscope.client import Isoscope
from isoscope.output import write, write_json

HELP = "take in an experiment from a zip file"


def add_arguments(command: ArgumentParser) -> None:
    """Add the arguments."""
    command.add_argument("file", type=Path, metavar="FILE", help="as isoscope export wrote it")


def run(isoscope: Isoscope, given: Namespace) -> int:
    """Take it in, and print where it is."""
    found = isoscope.import_experiment(given.file)
    where = f"{found['name']}: {isoscope.url}/experiments/{found['id']}"
    return write_json(found) if given.json else write([where])
