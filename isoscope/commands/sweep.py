"""Launch a sweep that a YAML file describes, as every launch page and experiment gives one."""

import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path

from isoscope.client import Isoscope
from isoscope.core.formatting import durations, size
from isoscope.files.yaml_document import MAX_CHARACTERS, read_yaml
from isoscope.output import tell, write, write_json
from isoscope.remote.connection import Row
from isoscope.remote.experiments import MOVING

HELP = "launch a sweep from a YAML file"
STANDARD_INPUT = "-"


def add_arguments(command: ArgumentParser) -> None:
    """Add the arguments."""
    command.add_argument("file", metavar="FILE", help="YAML; - for the standard input")
    command.add_argument("--dataset", metavar="NAME", help="by its name or id, instead of the file's dataset_id")
    command.add_argument("--name", help="instead of the file's")
    command.add_argument("--dry-run", action="store_true", help="try eight rows, tell what it would take, launch none")
    command.add_argument("--wait", action="store_true", help="until all runs have ended; exit 1 if one did not finish")


def run(isoscope: Isoscope, given: Namespace) -> int:
    """Launch it, and print where it is; or what it would take."""
    request = read_yaml(sys.stdin.read(MAX_CHARACTERS + 1)) if given.file == STANDARD_INPUT else Path(given.file)
    settings = isoscope.settings_of(request, given.dataset) | ({"name": given.name} if given.name else {})
    if given.dry_run:
        return _try(isoscope, settings, as_json=given.json)
    experiment = isoscope.sweep(settings)
    where = f"{experiment['name']}: {isoscope.url}/experiments/{experiment['id']}"
    if not given.wait:
        return write_json(experiment) if given.json else write([where])
    tell(where)
    ended = isoscope.wait(experiment, _tell_progress)
    counts = Counter(run["status"] for run in ended["runs"])
    line = ", ".join(f"{count} {status}" for status, count in counts.items())
    return (write_json(ended) if given.json else write([line])) or int(
        counts["finished"] + counts["pruned"] < counts.total()
    )


def _try(isoscope: Isoscope, settings: Row, *, as_json: bool) -> int:
    answer = isoscope.dry_run(settings, wait=False)
    if answer["estimate"] is None and isoscope.health()["workers_alive"]:
        tell("a worker tries eight rows and a few steps")
        answer = isoscope.dry_run(settings)
    return write_json(answer) if as_json else write([answer["words"], *answer["notes"], *_estimate(answer["estimate"])])


def _estimate(estimate: Row | None) -> list[str]:
    if estimate is None:
        return ["No worker is alive, so there is no estimate of the time."]
    whole = durations(estimate["low_seconds"], estimate["high_seconds"])
    longest = durations(estimate["longest_low_seconds"], estimate["longest_high_seconds"])
    passing = size(estimate["passing_bytes"])
    return [
        f"About {whole}, one run at a time. The longest run: {longest}.",
        "Not included: early stops, evaluations that choose a checkpoint, writing checkpoints and models, downloads.",
        f"{passing} of the disk while a run trains, {size(estimate['kept_bytes'])} kept",
    ]


def _tell_progress(experiment: Row) -> None:
    ended = sum(run["status"] not in MOVING for run in experiment["runs"])
    tell(f"{ended} of {len(experiment['runs'])} runs have ended")
