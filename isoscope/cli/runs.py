"""Runs and experiments at the command line: search runs, write predictions, export and import experiments."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from isoscope.cli.printing import note, number, table, upload_progress, write, write_json
from isoscope.client import Isoscope
from isoscope.client.connection import Row
from isotropy.catalog import REGULARIZERS

LONGEST_NAME = 40  # characters
OPTIONS_BY_REGULARIZER = {str(name): penalty.options for name, penalty in REGULARIZERS.items()}
HEADERS = ("Run", "Experiment", "Status", "Regularizer", "λ", "ζ", "Seed", "Performance", "IsoScore★")


def runs_arguments(command: ArgumentParser) -> None:
    command.add_argument(
        "query", nargs="?", default="", metavar="QUERY", help="search such as 'task:cola lam<0' (default: all runs)"
    )
    command.add_argument(
        "--sort", default="", metavar="FIELD", help="sort by this field (default: newest experiment first)"
    )
    command.add_argument("--descending", action="store_true", help="sort in descending order")
    command.add_argument("--limit", type=int, default=50, help="maximum number of runs (default: 50)")
    command.add_argument("--all", action="store_true", help="print all runs")


def runs(isoscope: Isoscope, arguments: Namespace) -> int:
    """List runs of all experiments, searched as on the pages: isoscope runs 'task:cola lam<0' --sort performance."""
    sort = f"-{arguments.sort}" if arguments.sort and arguments.descending else arguments.sort
    if arguments.all:
        rows = list(isoscope.all_runs(arguments.query, sort=sort))
        total = len(rows)
    else:
        rows, total = isoscope.page_of_runs(arguments.query, sort=sort, limit=arguments.limit)
    if arguments.json:
        return write_json(rows)
    if total > len(rows):
        note(f"{len(rows)} of {total} runs; --all lists them all")
    cells = [
        (
            run["id"],
            run["experiment"][:LONGEST_NAME],
            run["status"],
            run["regularizer"],
            number(run["lam"]),
            number(run["zeta"] if "zeta" in OPTIONS_BY_REGULARIZER.get(run["regularizer"], ()) else None),
            str(run["seed"]),
            number(run["performance"]),
            number(run["isoscore_star"]),
        )
        for run in rows
    ]
    return write(table(HEADERS, cells) if rows else ["There are no such runs."])


def predictions_arguments(command: ArgumentParser) -> None:
    command.add_argument("run_id", metavar="RUN", help="id of the run, as in its address")
    command.add_argument(
        "--split", choices=("validation", "test"), default="validation", help="test only after its scores are opened"
    )
    command.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="file to write (default: predictions-RUN.csv)"
    )


def predictions(isoscope: Isoscope, arguments: Namespace) -> int:
    """Write what a finished run predicted for each row as CSV."""
    if arguments.json:
        return write_json(list(isoscope.predictions(arguments.run_id, split=arguments.split)))
    target = arguments.output or Path(f"predictions-{arguments.run_id}.csv")
    return write([str(isoscope.download_predictions(arguments.run_id, target, split=arguments.split))])


def export_arguments(command: ArgumentParser) -> None:
    command.add_argument("experiment", metavar="EXPERIMENT", help="name or id of the experiment")
    command.add_argument("-o", "--output", type=Path, metavar="FILE", help="file to write (default: ID.zip)")


def export(isoscope: Isoscope, arguments: Namespace) -> int:
    """Write an experiment with all its runs as a zip file, which isoscope import takes in elsewhere."""
    experiment = isoscope.find_experiment(arguments.experiment)
    path = isoscope.export_experiment(experiment, arguments.output or Path(f"{experiment['id']}.zip"))
    return write_json({"file": str(path)}) if arguments.json else write([str(path)])


def import_experiment_arguments(command: ArgumentParser) -> None:
    command.add_argument("file", type=Path, metavar="FILE", help="zip file written by isoscope export")
    command.add_argument("--no-wait", action="store_true", help="print the address of the import without waiting")


def import_experiment(isoscope: Isoscope, arguments: Namespace) -> int:
    """Import an experiment that isoscope export, or its page, wrote on another dashboard."""
    with upload_progress([arguments.file]) as progress:
        record = isoscope.import_experiment(arguments.file, wait=False, progress=progress)
    page = f"imports/{record['id']}"
    if not arguments.no_wait:
        if not isoscope.health()["workers_alive"]:
            note("No worker is running. The import waits until one starts.")
        from tqdm import tqdm  # noqa: PLC0415

        with tqdm(desc="importing", unit=" rows", unit_scale=True, disable=None, leave=False) as bar:

            def update_bar(running_import: Row) -> None:
                bar.total = running_import["total"]
                bar.update(running_import["done"] - bar.n)

            record = isoscope.wait_for_import(record, update_bar)
        page = f"experiments/{record['id']}"
    if arguments.json:
        return write_json(record)
    return write([f"{record.get('name', arguments.file.name)}: {isoscope.url}/{page}"])
