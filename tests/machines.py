"""Several machines that share one PostgreSQL, each a worker process with its name and data folder."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from signal import SIGKILL, SIGSTOP, Signals

import psutil
from sqlalchemy import select

from app.context import Context
from app.core.process import COMPLETE_MARKER
from app.db.models import Experiment, Run, RunStatus, Worker
from app.storage import Incoming
from app.training.datasets import create_dataset
from app.training.experiments import create_experiment
from app.training.sweeps import SweepRequest
from tests.texts import FILMS
from tests.waiting import wait_for

# For slow CI machines; on an idle one each step takes seconds.
PATIENCE_SECONDS = 300
STEPS = 300


class Machine:
    def __init__(self, name: str, context: Context, folder: Path, database_url: str | None = None) -> None:
        self.slot = f"{name}/cpu"
        self._context = context
        self._log = folder / f"{name}.log"
        data = folder / name
        data.mkdir()
        (data / "files").symlink_to(context.settings.files)  # the machines share only uploads
        self._runs = data / "runs"
        self._environment = os.environ | {
            "ISOSCOPE_DATA_DIR": str(data),
            "ISOSCOPE_DATABASE_URL": database_url or context.settings.database_url,
            "ISOSCOPE_MODELS_DIR": str(context.settings.models),
            "ISOSCOPE_WORKER_NAME": name,
            "ISOSCOPE_CHECKPOINT_SECONDS": "0.5",
        }
        self.start()

    def start(self) -> None:
        """Start the worker. Its lifeline is a pipe, so it ends with this process."""
        command = [sys.executable, "-m", "workers", "--device", "cpu", "--lifeline"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command, env=self._environment, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log()
        with self._context.sessions() as session:
            return session.scalar(select(Worker).where(Worker.slot == self.slot)) is not None

    def checkpoints(self, run_id: str) -> list[Path]:
        return list((self._runs / run_id).glob(f"checkpoint-*/{COMPLETE_MARKER}"))

    def tree(self) -> list[psutil.Process]:
        worker = psutil.Process(self.process.pid)
        return [worker, *worker.children(recursive=True)]

    def signal(self, number: Signals) -> None:
        """Send a signal to the whole process tree, like a power cut or a frozen machine."""
        for process in self.tree():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def lose(self) -> None:
        if self.process.poll() is None:
            self.signal(SIGSTOP)  # a stopped process starts no others
            self.signal(SIGKILL)
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-5000:]


def launch(context: Context, steps: int, lambdas: list[float], seeds: list[int]) -> Experiment:
    files = (Incoming(BytesIO(FILMS.encode()), f"{split}.tsv") for split in ("train", "validation"))
    dataset = create_dataset(context, *files)
    request = SweepRequest(
        model="tiny-bert", dataset_id=dataset.id, text_columns=["sentence"], label_column="label", lambdas=lambdas,
        seeds=seeds, epochs=None, max_steps=steps,
    )  # fmt: skip
    return create_experiment(context, request)


def runs_of(context: Context) -> list[Run]:
    with context.sessions() as session:
        runs = list(session.scalars(select(Run).order_by(Run.position)))
        assert all(isinstance(run.steps, list) for run in runs)
        return runs


def wait_until_training(context: Context, seconds: float = PATIENCE_SECONDS) -> Run:
    training_runs: list[Run] = []

    def is_training() -> bool:
        training_runs.extend(run for run in runs_of(context) if run.phase == "training" and run.phase_done > 0)
        return bool(training_runs)

    wait_for(is_training, seconds)
    return training_runs[0]


def start_two(context: Context, machine: Callable[[str], Machine]) -> list[Machine]:
    machines = [machine("alpha"), machine("beta")]
    for worker in machines:
        wait_for(worker.is_ready, PATIENCE_SECONDS)
    launch(context, steps=STEPS, lambdas=[0.0], seeds=[0])
    slot = wait_until_training(context).worker
    return sorted(machines, key=lambda worker: worker.slot != slot)


def check_finished(context: Context, slot: str) -> Run:
    (run,) = runs_of(context)
    assert (run.status, run.worker, run.error) == (RunStatus.FINISHED, slot, None)
    steps = [step.step for step in run.steps]
    assert steps == list(range(0, STEPS + 1, STEPS // 100))
    wait_for(lambda: context.queue.list_active() == set())
    return run
