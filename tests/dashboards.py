"""A web process on generated rows: finished, failed, waiting and lost runs, and a data set to launch on."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import select

from app.context import Context, create_context
from app.db.models import Experiment, Run, RunStatus
from app.storage import Incoming
from app.training.datasets import create_dataset
from benchmarks._many_runs import fill
from tests.archives import add_experiment
from tests.serving import empty_settings, web_process

ROWS = "sentence\tlabel\n" + "".join(f"the {'good' if i % 2 else 'bad'} film {i}\t{i % 2}\n" for i in range(120))


class FilledDashboard(NamedTuple):
    url: str
    context: Context
    finished: str
    troubled: str
    waiting: str
    dataset: str

    def run(self, experiment: str, status: RunStatus) -> str:
        statement = select(Run.id).where(Run.experiment_id == experiment, Run.status == status).order_by(Run.position)
        with self.context.sessions() as session:
            return session.scalars(statement).first() or ""


@contextmanager
def fill_dashboard(data_dir: Path, databases: list[Path]) -> Iterator[FilledDashboard]:
    settings = empty_settings(data_dir, databases)
    context = create_context(settings)
    (finished,) = fill(context, runs=60, experiments=1, steps=24)
    (waiting,) = fill(context, runs=12, experiments=1, steps=12, waiting=4)
    with context.sessions.begin() as session:
        for row_id, name in ((finished, "All finished"), (waiting, "Some wait")):
            session.get_one(Experiment, row_id).name = name
    troubled = add_experiment(context)
    files = (Incoming(BytesIO(ROWS.encode()), f"{split}.tsv") for split in ("train", "validation"))
    dataset = create_dataset(context, *files).id
    with web_process(settings) as address:
        yield FilledDashboard(address, context, finished, troubled, waiting, dataset)
    context.close()


@contextmanager
def empty_dashboard(data_dir: Path, databases: list[Path]) -> Iterator[tuple[str, Context]]:
    settings = empty_settings(data_dir, databases)
    context = create_context(settings)
    with web_process(settings) as address:
        yield address, context
    context.close()
