"""List runs of all experiments, searched as on the pages: isoscope runs 'task:cola lam<0' --sort performance."""

from argparse import ArgumentParser, Namespace

from app.db.regularizer_options import Regularizer
from isoscope.client import Isoscope
from isoscope.output import number, table, tell, write, write_json
from isoscope.remote.connection import Row

HELP = "search the runs of all experiments"
LONGEST_NAME = 40
HEADS = ("Run", "Experiment", "Status", "Regularizer", "λ", "ζ", "Seed", "Performance", "IsoScore★")


def add_arguments(command: ArgumentParser) -> None:
    """Add the arguments."""
    command.add_argument("query", nargs="?", default="", metavar="QUERY", help="such as 'task:cola lam<0'; else all")
    command.add_argument("--sort", default="", metavar="FIELD", help="instead of the newest experiment first")
    command.add_argument("--descending", action="store_true", help="the greatest first")
    command.add_argument("--limit", type=int, default=50, help="at most so many (default: 50)")
    command.add_argument("--all", action="store_true", help="all of them")


def run(isoscope: Isoscope, given: Namespace) -> int:
    """Print a line for each run."""
    sort = f"-{given.sort}" if given.sort and given.descending else given.sort
    if given.all:
        found = list(isoscope.all_runs(given.query, sort=sort))
        total = len(found)
    else:
        found, total = isoscope.page_of_runs(given.query, sort=sort, limit=given.limit)
    if given.json:
        return write_json(found)
    if total > len(found):
        tell(f"{len(found)} of {total} runs; --all lists them all")
    return write(table(HEADS, [_cells(one) for one in found]) if found else ["There are no such runs."])


def _cells(run: Row) -> tuple[str, ...]:
    return (
        run["id"],
        run["experiment"][:LONGEST_NAME],
        run["status"],
        run["regularizer"],
        number(run["lam"]),
        number(run["zeta"] if run["regularizer"] == Regularizer.ISTAR else None),
        str(run["seed"]),
        number(run["performance"]),
        number(run["isoscore_star"]),
    )
