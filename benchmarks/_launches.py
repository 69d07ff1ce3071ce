"""Data sets and sweeps of a dashboard by their names, over its JSON API: launched once, found again ever after."""

import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx2

LOOK_EVERY_SECONDS = 5.0


class Dashboard:
    """A running dashboard."""

    def __init__(self, url: str, token: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = httpx2.Client(base_url=url, headers=headers, timeout=300)

    def get(self, path: str) -> Any:
        """Return the JSON at an API path."""
        return _answer(self._client.get(f"/api{path}"))

    def download(self, path: str, target: Path) -> None:
        """Write the file at an API path to ``target``."""
        with self._client.stream("GET", f"/api{path}") as answer, target.open("wb") as file:
            answer.raise_for_status()
            for part in answer.iter_bytes():
                file.write(part)

    def dataset(self, name: str, files: tuple[Path, Path]) -> str:
        """Return the id of the data set of that name, uploaded if there is none."""
        if (known := _named(self.get("/datasets"), name)) is not None:
            return known
        with files[0].open("rb") as train, files[1].open("rb") as validation:
            parts = {"train": (files[0].name, train), "validation": (files[1].name, validation)}
            return str(_answer(self._client.post("/api/datasets", files=parts, data={"name": name}))["id"])

    def experiment(self, request: Mapping[str, Any]) -> str:
        """Return the id of the experiment of the request's name, launched if there is none."""
        known = _named(self.get("/experiments"), request["name"])
        return known or str(_answer(self._client.post("/api/experiments", json=request))["id"])

    def wait(self, experiments: Iterable[str]) -> None:
        """Return when all runs of these experiments have ended, and say on the way how many have."""
        waiting, told = list(experiments), ""
        while True:
            runs = [run for one in waiting for run in self.get(f"/experiments/{one}")["runs"]]
            ended = sum(run["status"] not in {"queued", "running"} for run in runs)
            line = f"{ended} of {len(runs)} runs have ended, {self.get('/health')['workers_alive']} workers alive"
            if line != told:
                print(line, file=sys.stderr, flush=True)
                told = line
            if ended == len(runs):
                return
            time.sleep(LOOK_EVERY_SECONDS)

    def runs(self, experiment: str) -> list[dict[str, Any]]:
        """Return the runs of an experiment with all that they logged."""
        return [self.get(f"/runs/{run['id']}") for run in self.get(f"/experiments/{experiment}")["runs"]]


def _named(rows: Iterable[Mapping[str, Any]], name: str) -> str | None:
    return next((str(row["id"]) for row in rows if row["name"] == name), None)


def _answer(answer: httpx2.Response) -> Any:
    if not answer.is_success:
        raise RuntimeError(f"{answer.request.method} {answer.request.url.path}: {answer.status_code} {answer.text}")
    return answer.json()
