"""Import an experiment that isoscope export, or its page, wrote on another dashboard."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from tqdm import tqdm

from isoscope.client import Isoscope
from isoscope.output import tell, write, write_json
from isoscope.progress import sending
from isoscope.remote.connection import Row

HELP = "import an experiment from a zip file"


def add_arguments(command: ArgumentParser) -> None:
    """Add the arguments."""
    command.add_argument("file", type=Path, metavar="FILE", help="as isoscope export wrote it")
    command.add_argument(
        "--no-wait", action="store_true", help="print where the import is, and do not wait for its end"
    )


def run(isoscope: Isoscope, given: Namespace) -> int:
    """Import it, and print where it is."""
    with sending([given.file]) as progress:
        found = isoscope.import_experiment(given.file, wait=False, progress=progress)
    page = f"imports/{found['id']}"
    if not given.no_wait:
        if not isoscope.health()["workers_alive"]:
            tell("No worker is running. The import waits until one is back.")
        found = _written(isoscope, found)
        page = f"experiments/{found['id']}"
    return write_json(found) if given.json else write([f"{found.get('name', given.file.name)}: {isoscope.url}/{page}"])


def _written(isoscope: Isoscope, sent: Row) -> Row:
    """Wait for the experiment, showing how many rows are written."""
    with tqdm(desc="importing", unit=" rows", unit_scale=True, disable=None, leave=False) as bar:

        def show(row: Row) -> None:
            bar.total = row["total"]
            bar.update(row["done"] - bar.n)

        return isoscope.wait_for_import(sent, show)
