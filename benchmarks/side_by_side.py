"""Count the runs a minute that a worker finishes with several runs side by side on its device, and their memory.

Run: ISOSCOPE_BENCH_DATA=FOLDER python -m benchmarks.side_by_side [N ...], with rte/train.tsv and rte/validation.tsv
The environment variable STEPS sets the length of a run.
"""

import os
import sys
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks._launches import find_or_launch, find_or_upload, wait_for
from benchmarks._rounds import machine
from benchmarks._tasks import MODEL, PAIR, files_of
from benchmarks._web import dashboard
from isoscope.client import Isoscope

MIN_RUNS = 8


def train(client: Isoscope, files: tuple[Path, Path], n_runs: int) -> tuple[float, float]:
    """Train runs with I-STAR and baselines, half each; return how many end in a minute, and the most GiB of a run."""
    request = {
        "name": "side by side",
        "dataset_id": find_or_upload(client, "RTE", files),
        "model": MODEL,
        "text_columns": PAIR,
        "label_column": "label",
        "lambdas": [-1.0],
        "seeds": list(range(n_runs // 2)),
        "epochs": None,
        "max_steps": int(os.environ.get("STEPS", "78")),
        "batch_size": 32,
        "max_length": 128,
    }
    experiment_id = find_or_launch(client, request)
    wait_for(client, [experiment_id])
    runs: list[dict[str, Any]] = client.experiment(experiment_id)["runs"]
    if errors := [run["error"] for run in runs if run["status"] != "finished"]:
        raise RuntimeError(f"{len(errors)} of {len(runs)} runs did not finish: {errors[0]}")
    start = min(datetime.fromisoformat(run["started_at"]) for run in runs)
    end = max(datetime.fromisoformat(run["finished_at"]) for run in runs)
    peaks = [attempt["peak_bytes"] or 0 for run in runs for attempt in client.run(run)["attempts"]]
    return 60 * len(runs) / (end - start).total_seconds(), max(peaks) / 2**30


def main() -> None:
    """Print for each number of runs side by side the runs a minute, their ratio to one at a time, and the memory."""
    files = files_of(Path(os.environ["ISOSCOPE_BENCH_DATA"]), "rte")
    print(machine("torch", "transformers"))
    print(f"{MODEL}, RTE\n\n| side by side | runs a minute | ratio to the first | GiB of a run |\n|---|---|---|---|")
    rates: list[float] = []
    os.environ.setdefault("ISOSCOPE_DEVICE", "cuda:0" if torch.cuda.is_available() else "cpu")
    for n_at_once in map(int, sys.argv[1:] or ("1", "2", "4", "8")):
        os.environ["ISOSCOPE_RUNS_PER_DEVICE"] = str(n_at_once)
        with TemporaryDirectory() as folder, dashboard(folder) as url:
            rate, peak_gib = train(Isoscope(url), files, max(MIN_RUNS, 2 * n_at_once))
        rates.append(rate)
        print(f"| {n_at_once} | {rate:.2f} | {rate / rates[0]:.2f} | {peak_gib:.2f} |", flush=True)


if __name__ == "__main__":
    main()
