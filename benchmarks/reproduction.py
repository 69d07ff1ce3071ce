"""Repeat I-STAR's comparison through the JSON API of a dashboard: see docs/reproduction.md.

Run: ISOSCOPE_BENCH_DATA=<folder> python -m benchmarks.reproduction [--help]

It may be interrupted and repeated, also on another machine: sweeps are found by their names or among the archives.
"""

import argparse
import dataclasses
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from app.core.names import to_file_name
from app.db.options.training import Precision
from benchmarks._launches import find_experiment, find_or_launch, find_or_upload, wait_for
from benchmarks._reproduced import Curve, Report, replace_section
from benchmarks._tasks import TASKS, Budget, files_of, request_sweep
from benchmarks._web import dashboard
from isoscope.client import Isoscope

DATA_VARIABLE = "ISOSCOPE_BENCH_DATA"
FOLDER = Path("data/reproduction")
ENDED = ("finished", "failed", "cancelled")
CHOICES: dict[str, list[str]] = {"tasks": list(TASKS), "precision": list(Precision)}


class Sweep(NamedTuple):
    """An experiment with the runs of one seed, and the file that holds it once they have ended."""

    model: str
    task: str
    id: str
    archive: Path


def main() -> None:
    """Launch missing sweeps, wait, archive them, and print the report; ``--write`` also writes it into a document."""
    arguments = parse(sys.argv[1:])
    budget = budget_of(arguments)
    data = Path(os.environ.get(DATA_VARIABLE, ""))
    missing = [str(file) for task in budget.tasks for file in files_of(data, task) if not file.is_file()]
    if DATA_VARIABLE not in os.environ or missing:
        sys.exit(
            f"{DATA_VARIABLE} has to name a folder with the files that docs/reproduction.md lists; missing: {missing}"
        )
    arguments.archives.mkdir(parents=True, exist_ok=True)
    with _connect(arguments) as client:
        sweeps = launch(client, data, budget, arguments.archives)
        for sweep in sweeps:
            wait_for(client, [sweep.id])
            if not all(run["status"] in ENDED for run in client.experiment(sweep.id)["runs"]):
                sys.exit("Some runs are paused. Resume them on the dashboard, and repeat the command.")
            if not sweep.archive.exists():
                client.export_experiment(sweep.id, sweep.archive)
        text = gather(client, sweeps, budget).markdown()
    print(text)
    if arguments.write is not None:
        arguments.write.write_text(replace_section(arguments.write.read_text("utf-8"), text), "utf-8")


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.reproduction", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--url", help="URL of a running dashboard; by default, one is started on --folder")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="data folder of the dashboard that is started")
    parser.add_argument("--archives", type=Path, default=FOLDER / "archives", help="folder of archives of ended sweeps")
    parser.add_argument("--write", type=Path, help="a document whose results are to be replaced")
    for field in dataclasses.fields(Budget):
        default: Any = field.default
        is_list = isinstance(default, tuple)
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            nargs="+" if is_list else None,
            type=type(default[0] if is_list else default),
            choices=CHOICES.get(field.name),
            default=default,
            help=field.metadata["help"],
        )
    return parser.parse_args(words)


def budget_of(arguments: argparse.Namespace) -> Budget:
    """Return the budget of a command line."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(Budget):
        value = getattr(arguments, field.name)
        values[field.name] = tuple(value) if isinstance(value, list) else value
    return Budget(**values)


def launch(client: Isoscope, data: Path, budget: Budget, archives: Path) -> list[Sweep]:
    """Upload missing data sets; import archived sweeps and launch missing ones, a seed of all before the next."""
    datasets = {task: find_or_upload(client, f"Reproduction: {task}", files_of(data, task)) for task in budget.tasks}
    sweeps = []
    for seed in budget.seeds:
        for model in budget.models:
            for task in budget.tasks:
                request = request_sweep(budget, model, task, seed) | {"dataset_id": datasets[task]}
                archive = archives / f"{to_file_name(request['name'])}.zip"
                if archive.exists() and find_experiment(client, request["name"]) is None:
                    client.import_experiment(archive)
                sweeps.append(Sweep(model, task, find_or_launch(client, request), archive))
    return sweeps


def gather(client: Isoscope, sweeps: Sequence[Sweep], budget: Budget) -> Report:
    """Return the report of ended sweeps: for each model and task the conclusion from all seeds."""
    report = Report(budget)
    for model in budget.models:
        for task in budget.tasks:
            ids = [sweep.id for sweep in sweeps if (sweep.model, sweep.task) == (model, task)]
            search = f"experiment:{','.join(ids)}"
            runs, answer = list(client.all_runs(search)), client.conclusion_of_runs(search)
            if answer["runs"] != len(runs) or len(answer["measured"]) > 1:
                sys.exit(f"The runs of {task} are on several data sets: {', '.join(answer['measured'].values())}.")
            report.curves.append(Curve(model, task, runs, answer["conclusion"]))
            details = (client.run(client.experiment(sweep_id)["runs"][0]) for sweep_id in ids)
            report.environments += [run["environment"] for run in details if run["environment"]]
    return report


@contextmanager
def _connect(arguments: argparse.Namespace) -> Iterator[Isoscope]:
    if arguments.url is not None:
        yield Isoscope(arguments.url)
        return
    with dashboard(str(arguments.folder)) as url:
        yield Isoscope(url)


if __name__ == "__main__":
    main()
