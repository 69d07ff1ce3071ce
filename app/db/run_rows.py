"""Runs as plain values, which load in a third of the time of ORM objects."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session, joinedload

from app.db.models import Experiment, Run, RunStatus
from app.db.models.runs import Timed
from app.db.reported_config import AnyRunConfig
from app.db.run_results import Learning
from isotropy.catalog import Regularizer


@dataclass(slots=True, eq=False)
class RunRow(Timed):
    """A row of the table of runs, with the attribute names of ``Run``."""

    id: str
    experiment_id: str
    position: int
    config: AnyRunConfig
    regularizer: Regularizer
    lam: float
    zeta: float
    seed: int
    seed_round: int
    status: RunStatus
    started_at: datetime | None
    finished_at: datetime | None
    rested_seconds: float
    worked_seconds: float | None
    heard_at: datetime | None
    performance: float | None
    performance_reason: str | None
    isoscore_star: float | None
    isoscore_star_reason: str | None
    learning: Learning | None
    experiment: Experiment = field(init=False)


AnyRun = Run | RunRow

_COLUMNS = tuple(getattr(Run, column.name) for column in fields(RunRow) if column.init)


def read_run_rows(session: Session, *conditions: ColumnElement[bool]) -> list[RunRow]:
    """Return the runs that meet the conditions. Runs of one experiment share one ``Experiment`` object."""
    rows: Sequence[Any] = session.execute(select(*_COLUMNS).where(*conditions)).all()
    experiment_ids = {row.experiment_id for row in rows}
    query = select(Experiment).where(Experiment.id.in_(experiment_ids)).options(joinedload(Experiment.dataset))
    experiments = {experiment.id: experiment for experiment in session.scalars(query)}
    runs = [RunRow(*row) for row in rows if row.experiment_id in experiments]  # others were removed in between
    for run in runs:
        run.experiment = experiments[run.experiment_id]
    return runs
