"""Upload vectors to a dashboard and have them measured there; isoscope score measures without one."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from isoscope.client import Isoscope
from isoscope.measures import EXPLAINED, by_group, cell
from isoscope.output import write, write_json
from isoscope.progress import sending
from isoscope.remote.connection import Row
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
    return write([where, *(_table(scores, isoscope.embedding(found)["n"]) if scores else [])])


def _table(scores: dict[str, Row], rows: int | None) -> list[str]:
    """The measures as ``isoscope score`` prints them."""
    measured = {slug: scores[slug] for slug in MEASURES if slug in scores}
    cells = {
        slug: cell(one["value"], one["se"], one["reason"], one["n"], rows, one.get("detail"))
        for slug, one in measured.items()
    }
    return [EXPLAINED, *by_group(cells)]
