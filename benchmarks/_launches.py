"""Upload data sets and launch sweeps of a dashboard, unless it has ones with the same names."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from isoscope.client import Isoscope


def find_or_upload(dashboard: Isoscope, name: str, files: tuple[Path, Path]) -> str:
    """Return the id of the data set with this name; upload its files if there is none."""
    return _find_id(dashboard.datasets(), name) or str(dashboard.upload_dataset(*files, name=name)["id"])


def find_or_launch(dashboard: Isoscope, request: Mapping[str, Any]) -> str:
    """Return the id of the experiment with the request's name; launch it if there is none."""
    return find_experiment(dashboard, request["name"]) or str(dashboard.sweep(request)["id"])


def find_experiment(dashboard: Isoscope, name: str) -> str | None:
    """Return the id of the experiment with this name, if there is one."""
    return _find_id(dashboard.all_experiments(), name)


def wait_for(dashboard: Isoscope, experiment_ids: Iterable[str]) -> None:
    """Wait until all runs of these experiments have ended, and print their progress."""
    for experiment_id in experiment_ids:
        dashboard.wait(experiment_id, lambda row: print(_progress(row, dashboard), file=sys.stderr, flush=True))


def _progress(experiment: Mapping[str, Any], dashboard: Isoscope) -> str:
    n_ended = sum(run["status"] not in ("queued", "running") for run in experiment["runs"])
    n_workers = dashboard.health()["workers_alive"]
    return f"{experiment['name']}: {n_ended} of {len(experiment['runs'])} runs have ended, {n_workers} workers alive"


def _find_id(rows: Iterable[Mapping[str, Any]], name: str) -> str | None:
    return next((str(row["id"]) for row in rows if row["name"] == name), None)
