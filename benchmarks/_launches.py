"""Data sets and sweeps of a dashboard by their names: launched once, found again ever after."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from isoscope.client import Isoscope


def dataset_of(here: Isoscope, name: str, files: tuple[Path, Path]) -> str:
    """Return the id of the data set of that name, uploaded if there is none."""
    known = _named(here.datasets(), name)
    return known or str(here.upload_dataset(*files, name=name)["id"])


def experiment_of(here: Isoscope, request: Mapping[str, Any]) -> str:
    """Return the id of the experiment of the request's name, launched if there is none."""
    return _named(here.all_experiments(), request["name"]) or str(here.sweep(request)["id"])


def wait_for(here: Isoscope, experiments: Iterable[str]) -> None:
    """Return when all runs of these experiments have ended, and say on the way how many of each have."""
    for one in experiments:
        here.wait(one, lambda found: print(_progress(found, here), file=sys.stderr, flush=True))


def _progress(experiment: Mapping[str, Any], here: Isoscope) -> str:
    ended = sum(run["status"] not in ("queued", "running") for run in experiment["runs"])
    alive = here.health()["workers_alive"]
    return f"{experiment['name']}: {ended} of {len(experiment['runs'])} runs have ended, {alive} workers alive"


def _named(rows: Iterable[Mapping[str, Any]], name: str) -> str | None:
    return next((str(row["id"]) for row in rows if row["name"] == name), None)
