"""Shared fixtures that need a worker, and so torch. The web process and its tests need neither."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
import torch

import workers.preload  # noqa: F401 - what jobs import, at once, as in the fork server of a worker
from app.context import Context
from app.db.job_kinds import BACKGROUND_PRIORITY
from app.db.work import list_waiting_jobs
from tests.machines import Machine
from tests.outages import ENVIRONMENT, Sweep
from tests.serving import Serving
from tests.tiny import save_tiny_models
from workers.process import do_job

__all__ = ["forked", "limit_threads", "machine", "models_dir", "train_on", "work"]


def limit_threads() -> None:
    """Use one thread by default: tiny models gain nothing from more."""
    threads = os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(int(threads))


@pytest.fixture
def work(context: Context) -> Callable[..., int]:
    def do_all(*, background: bool = False) -> int:
        """Do all waiting jobs and return their number. Neighbor layouts take a second each: ask for them."""
        done = 0
        while jobs := [
            job for job in list_waiting_jobs(context.sessions) if background or job.kind.priority < BACKGROUND_PRIORITY
        ]:
            for job in jobs:
                do_job(job.kind.work, job.row_id, context.settings, "cpu")
                done += 1
        return done

    return do_all


@pytest.fixture(scope="session")
def forked() -> ForkServerContext:
    """A multiprocessing context that preloads the imports of jobs, as a worker does."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["workers.preload"])
    return context


@pytest.fixture(scope="session")
def models_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_tiny_models(folder)
    return folder


@pytest.fixture
def train_on(serving: Callable[..., Serving], models_dir: Path) -> Callable[..., Sweep]:
    def start(**environment: str) -> Sweep:
        sweep = Sweep(serving(ISOSCOPE_MODELS_DIR=str(models_dir), **ENVIRONMENT, **environment))
        sweep.wait_until_training()
        return sweep

    return start


@pytest.fixture
def machine(context: Context, tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    started: list[Machine] = []

    def start(name: str, database_url: str | None = None) -> Machine:
        started.append(Machine(name, context, tmp_path, database_url))
        return started[-1]

    yield start
    for process in started:
        process.lose()
