"""Both papers' comparison at a small scale, through the JSON API of a dashboard; docs/reproduction.md says more.

Run: ISOSCOPE_BENCH_DATA=<folder> python -m benchmarks.reproduction [--help]

It may be interrupted: what was launched is found again by its name.
"""

import argparse
import dataclasses
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

from benchmarks._launches import dataset_of, experiment_of, wait_for
from benchmarks._recomputed import recompute
from benchmarks._report import Check, Report, between_markers
from benchmarks._results import result_of
from benchmarks._rounds import machine
from benchmarks._tasks import CHECK, TASKS, Budget, files_of, requests_for
from benchmarks._web import dashboard
from isoscope.client import Isoscope

DATA = "ISOSCOPE_BENCH_DATA"
FOLDER = "data/reproduction"


class Sweep(NamedTuple):
    """An experiment that was launched."""

    task: str
    part: str
    id: str


def main() -> None:
    """Launch what is missing, wait, and print the report, into a document too if asked."""
    arguments = parse(sys.argv[1:])
    data = Path(os.environ.get(DATA, ""))
    missing = [str(file) for task in arguments.tasks for file in files_of(data, task) if not file.is_file()]
    if DATA not in os.environ or missing:
        sys.exit(f"{DATA} has to name a folder with the files that docs/reproduction.md lists; missing: {missing}")
    budget = budget_of(arguments)
    with _dashboard(arguments) as here:
        sweeps = launch(here, data, arguments.tasks, budget)
        wait_for(here, (sweep.id for sweep in sweeps))
        report = gather(here, sweeps, data, budget)
    if arguments.url is None:
        report.machine = machine("torch", "transformers")
    text = report.markdown()
    print(text)
    if arguments.write is not None:
        arguments.write.write_text(between_markers(arguments.write.read_text("utf-8"), text), "utf-8")


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.reproduction", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--url", help="of a running dashboard; without, one is started on --folder")
    parser.add_argument("--folder", type=Path, default=Path(FOLDER), help="data folder of the one that is started")
    parser.add_argument("--write", type=Path, help="a document whose results are to be replaced")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), metavar="TASK")
    for field in dataclasses.fields(Budget):
        default: Any = field.default
        many = isinstance(default, tuple)
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            nargs="*" if many else None,
            type=type(default[0] if many else default),
            choices=TASKS if field.name == "sweeps" else None,
            default=default,
            help=field.metadata["help"],
        )
    return parser.parse_args(words)


def budget_of(arguments: argparse.Namespace) -> Budget:
    """Return the budget that a command line asks for."""
    asked: dict[str, Any] = {field.name: getattr(arguments, field.name) for field in dataclasses.fields(Budget)}
    asked["sweeps"] = [task for task in asked["sweeps"] if task in arguments.tasks]
    for name, value in asked.items():
        asked[name] = tuple(value) if isinstance(value, list) else value
    return Budget(**asked)


def launch(here: Isoscope, data: Path, tasks: Sequence[str], budget: Budget) -> list[Sweep]:
    """Upload and launch what is not there yet."""
    sweeps = []
    for task in tasks:
        dataset = dataset_of(here, f"Reproduction: {task}", files_of(data, task))
        for part, request in requests_for(task, budget).items():
            sweeps.append(Sweep(task, part, experiment_of(here, request | {"dataset_id": dataset})))
    return sweeps


def gather(here: Isoscope, sweeps: Sequence[Sweep], data: Path, budget: Budget) -> Report:
    """Return what the runs came to, those that did not finish told beside."""
    report = Report(budget, list(dict.fromkeys(sweep.task for sweep in sweeps)))
    for sweep in sweeps:
        for run in here.results(sweep.id):
            if run["status"] != "finished":
                coordinates = f"{run['regularizer']}, λ = {run['lam']:g}, seed {run['seed']}"
                why = " ".join((run["error"] or "").split())
                report.failures.append(f"{sweep.task}, {coordinates}: {run['status']}. {why}".rstrip())
                continue
            report.environments.append(run["environment"])
            report.results.append(result_of(sweep.task, sweep.part, run))
            if sweep.part == CHECK:
                report.checks += check(here, sweep.task, run, files_of(data, sweep.task)[1])
    return report


def check(here: Isoscope, task: str, run: dict[str, Any], validation: Path) -> list[Check]:
    """Download the trained model and recompute its metrics."""
    with tempfile.TemporaryDirectory() as folder:
        archive, model = Path(folder) / "model.zip", Path(folder) / "model"
        here.download_model(run, archive)
        with ZipFile(archive) as whole:
            whole.extractall(model)
        recomputed = recompute(model, validation, run["config"])
    results = run["results"]
    return [
        Check(task, metric, results["n_validation"], results["metrics"][metric], value)
        for metric, value in recomputed.items()
    ]


@contextmanager
def _dashboard(arguments: argparse.Namespace) -> Iterator[Isoscope]:
    if arguments.url is not None:
        yield Isoscope(arguments.url)
        return
    with dashboard(str(arguments.folder)) as url:
        yield Isoscope(url)


if __name__ == "__main__":
    main()
