"""Upload vectors to a dashboard and have them measured there; isoscope score measures without one."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from app.numerals import starred
from isoscope.client import Isoscope
from isoscope.output import number, table, write, write_json
from isoscope.progress import sending
from isotropy.catalog import MEASURES

HELP = "upload embeddings to a dashboard, which measures them"


def add_arguments(command: ArgumentParser) -> None:
    """Add the arguments."""
    command.add_argument("files", nargs="+", type=Path, metavar="FILE", help="vectors; several are one matrix")
    command.add_argument("--annotations", type=Path, metavar="FILE", help="a file of names and labels of the rows")
    command.add_argument("--name", help="if not the file's")
    command.add_argument("--draft", action="store_true", help="do not measure: choose on its page what is to be")
    command.add_argument("--wait", action="store_true", help="until it is measured, and print the measures")


def run(isoscope: Isoscope, given: Namespace) -> int:
    """Upload, and print where it is or what was measured of it."""
    files = [*given.files, *([given.annotations] if given.annotations else [])]
    with sending(files) as progress:
        found = isoscope.upload(
            *given.files, annotations=given.annotations, name=given.name, commit=not given.draft, progress=progress
        )
    scores = isoscope.score(found) if given.wait and not given.draft else {}
    if given.json:
        return write_json(isoscope.embedding(found) if scores else found)
    where = f"{found['name']}: {isoscope.url}/embeddings/{found['id']}"
    lines = [(starred(MEASURES[slug].name), number(_single(scores[slug]["value"]))) for slug in scores]
    return write([where, *(table(("Measure", "Value"), lines) if lines else [])])


def _single(value: object) -> float | None:
    """Return a measure's value if it is one number."""
    return value if isinstance(value, int | float) else None
