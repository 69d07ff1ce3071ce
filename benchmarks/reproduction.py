"""Reproduce both papers' comparison at a small scale, through the JSON API of a dashboard: see docs/reproduction.md.

Run: ISOSCOPE_BENCH_DATA=<folder> python -m benchmarks.reproduction [--help]

It may be interrupted: the next call finds launched sweeps by their names.
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

from benchmarks._launches import find_or_launch, find_or_upload, wait_for
from benchmarks._recomputed import recompute
from benchmarks._report import Check, Report, replace_section
from benchmarks._results import result_of
from benchmarks._rounds import machine
from benchmarks._tasks import CHECK, TASKS, Budget, files_of, requests_for
from benchmarks._web import dashboard
from isoscope.client import Isoscope

DATA_VARIABLE = "ISOSCOPE_BENCH_DATA"
FOLDER = "data/reproduction"


class Sweep(NamedTuple):
    """An experiment that was launched."""

    task: str
    part: str
    id: str


def main() -> None:
    """Launch missing sweeps, wait, and print the report; ``--write`` also writes it into a document."""
    arguments = parse(sys.argv[1:])
    data = Path(os.environ.get(DATA_VARIABLE, ""))
    missing = [str(file) for task in arguments.tasks for file in files_of(data, task) if not file.is_file()]
    if DATA_VARIABLE not in os.environ or missing:
        sys.exit(
            f"{DATA_VARIABLE} has to name a folder with the files that docs/reproduction.md lists; missing: {missing}"
        )
    budget = budget_of(arguments)
    with _connect(arguments) as client:
        sweeps = launch(client, data, arguments.tasks, budget)
        wait_for(client, (sweep.id for sweep in sweeps))
        report = gather(client, sweeps, data, budget)
    if arguments.url is None:
        report.machine = machine("torch", "transformers")
    text = report.markdown()
    print(text)
    if arguments.write is not None:
        arguments.write.write_text(replace_section(arguments.write.read_text("utf-8"), text), "utf-8")


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
        is_list = isinstance(default, tuple)
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            nargs="*" if is_list else None,
            type=type(default[0] if is_list else default),
            choices=TASKS if field.name == "sweeps" else None,
            default=default,
            help=field.metadata["help"],
        )
    return parser.parse_args(words)


def budget_of(arguments: argparse.Namespace) -> Budget:
    """Return the budget of a command line; only its tasks have long sweeps."""
    values: dict[str, Any] = {field.name: getattr(arguments, field.name) for field in dataclasses.fields(Budget)}
    values["sweeps"] = [task for task in values["sweeps"] if task in arguments.tasks]
    for name, value in values.items():
        values[name] = tuple(value) if isinstance(value, list) else value
    return Budget(**values)


def launch(client: Isoscope, data: Path, tasks: Sequence[str], budget: Budget) -> list[Sweep]:
    """Upload missing data sets and launch missing sweeps; return all sweeps."""
    sweeps = []
    for task in tasks:
        dataset = find_or_upload(client, f"Reproduction: {task}", files_of(data, task))
        for part, request in requests_for(task, budget).items():
            sweeps.append(Sweep(task, part, find_or_launch(client, request | {"dataset_id": dataset})))
    return sweeps


def gather(client: Isoscope, sweeps: Sequence[Sweep], data: Path, budget: Budget) -> Report:
    """Return the report of finished runs, with a list of those that failed."""
    report = Report(budget, list(dict.fromkeys(sweep.task for sweep in sweeps)))
    for sweep in sweeps:
        for run in client.results(sweep.id):
            if run["status"] != "finished":
                coordinates = f"{run['regularizer']}, λ = {run['lam']:g}, seed {run['seed']}"
                reason = " ".join((run["error"] or "").split())
                report.failures.append(f"{sweep.task}, {coordinates}: {run['status']}. {reason}".rstrip())
                continue
            report.environments.append(run["environment"])
            report.results.append(result_of(sweep.task, sweep.part, run))
            if sweep.part == CHECK:
                report.checks += check(client, sweep.task, run, files_of(data, sweep.task)[1])
    return report


def check(client: Isoscope, task: str, run: dict[str, Any], validation: Path) -> list[Check]:
    """Download the trained model and recompute its metrics."""
    with tempfile.TemporaryDirectory() as folder:
        archive, model = Path(folder) / "model.zip", Path(folder) / "model"
        client.download_model(run, archive)
        with ZipFile(archive) as zip_file:
            zip_file.extractall(model)
        recomputed = recompute(model, validation, run["config"])
    results = run["results"]
    return [
        Check(task, metric, results["n_validation"], results["metrics"][metric], value)
        for metric, value in recomputed.items()
    ]


@contextmanager
def _connect(arguments: argparse.Namespace) -> Iterator[Isoscope]:
    if arguments.url is not None:
        yield Isoscope(arguments.url)
        return
    with dashboard(str(arguments.folder)) as url:
        yield Isoscope(url)


if __name__ == "__main__":
    main()
