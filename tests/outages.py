"""Outages of a running dashboard: a full disk, a locked database, a frozen one, for given seconds."""

import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Any

import httpx2
import psutil
import pytest

from tests.postgresql import PostgreSQL
from tests.script_runs import RUN
from tests.serving import Serving
from tests.texts import FILM_FILES

STEPS = 200
PATIENCE_SECONDS = 300
EXPERIMENT = {
    "model": "tiny-bert", "text_columns": ["sentence"], "label_column": "label", "regularizers": [], "seeds": [0],
    "epochs": None, "max_steps": STEPS, "probe_every": STEPS,
}  # fmt: skip
ENVIRONMENT = {"ISOSCOPE_CHECKPOINT_SECONDS": "0.5", "OMP_NUM_THREADS": "1"}


class Sweep:
    def __init__(self, server: Serving) -> None:
        self.server = server
        self._dataset_id = server.post("/api/datasets", files=FILM_FILES)["id"]
        self.id = self._launch()

    def wait_until_training(self) -> None:
        self.server.wait_for(
            lambda: self.runs()[0]["phase"] == "training" and list(self.server.data_dir.glob("runs/*/*/complete")),
            "a checkpoint of the first run",
        )

    def runs(self, experiment_id: str = "") -> Any:
        with suppress(httpx2.HTTPError):
            return self.server.get(f"/api/experiments/{experiment_id or self.id}")["runs"]
        return [{"status": "unknown", "phase": None}]

    def check(self) -> list[dict[str, Any]]:
        """Check that every run finishes with the numbers of an undisturbed run; return the runs."""
        second_id = self.server.wait_for(self._launched, "an answer to another launch")
        self.server.wait_for(
            lambda: all(run["status"] in ("finished", "failed") for run in self.runs() + self.runs(second_id)),
            "the end of all runs",
            2 * PATIENCE_SECONDS,
        )
        disturbed, uninterrupted = (
            [self.server.get(f"/api/runs/{run['id']}") for run in self.runs(experiment_id)]
            for experiment_id in (self.id, second_id)
        )
        for run, reference_run in zip(disturbed, uninterrupted, strict=True):
            assert run["status"] == "finished", (run["error"], run["log"])
            assert [step["step"] for step in run["steps"]] == list(range(0, STEPS + 1, STEPS // 100))
            for name in ("performance", "isoscore_star", "results", "steps"):
                assert run[name] == reference_run[name], name
            assert [attempt["outcome"] for attempt in run["attempts"]].count("finished") == 1
            assert all(attempt["ended_at"] for attempt in run["attempts"])
        return disturbed

    def _launched(self) -> str | None:
        with suppress(AssertionError, httpx2.HTTPError):
            return self._launch()
        return None

    def _launch(self) -> str:
        request = EXPERIMENT | {"dataset_id": self._dataset_id}
        return self.server.post("/api/experiments", json=request)["id"]


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip(f"only root can mount a small disk: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    filler = folder / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (2**16, 2**12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return filler


def fill_disk(folder: Path, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:  # fills freed space again
        filler = fill(folder)
        time.sleep(0.05)
    filler.unlink()


def lock_sqlite(folder: Path, seconds: float) -> None:
    with ExitStack() as stack:
        for name in ("isoscope.sqlite", "queue.sqlite"):
            connection = sqlite3.connect(folder / name, timeout=60, isolation_level=None)
            stack.callback(connection.close)
            connection.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)


def freeze(postgresql: PostgreSQL, seconds: float) -> None:
    assert postgresql.process is not None
    parent = psutil.Process(postgresql.process.pid)
    tree = [parent, *parent.children(recursive=True)]
    for process in tree:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(SIGSTOP)
    time.sleep(seconds)
    for process in tree:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(SIGCONT)


def write_at_once(server: Serving, writers: int, during: Callable[[], None]) -> list[int]:
    def write(number: int) -> int:
        run = RUN | {"experiment": f"writer {number}"}
        return httpx2.post(f"{server.url}/api/runs", json=run, timeout=120).status_code

    with ThreadPoolExecutor(writers + 1) as pool:
        outage = pool.submit(during)
        time.sleep(0.2)
        answers = list(pool.map(write, range(writers)))
        outage.result()
    return answers
