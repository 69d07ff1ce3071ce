"""Runs as values alone: what figures, tables and conclusions of many read, in a third of the time of rows to change."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session, joinedload

from app.db.models import Experiment, Run, RunStatus
from app.db.models.runs import seconds_between
from app.db.reported_config import AnyRunConfig
from app.db.run_results import Learning
from isotropy.catalog import Regularizer


@dataclass(slots=True, eq=False)
class RunRow:
    """What ``Run`` has under the same names."""

    id: str
    experiment_id: str
    position: int
    config: AnyRunConfig
    regularizer: Regularizer
    lam: float
    zeta: float
    seed: int
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

    @property
    def seconds(self) -> float | None:
        """How long it was worked on."""
        return seconds_between(self)


AnyRun = Run | RunRow
"""A run, whichever way it was read."""

_COLUMNS = tuple(getattr(Run, one.name) for one in fields(RunRow) if one.init)


def read_run_rows(session: Session, *wanted: ColumnElement[bool]) -> list[RunRow]:
    """Read runs, each with its experiment and data set, which are few and read once each."""
    rows: Sequence[Any] = session.execute(select(*_COLUMNS).where(*wanted)).all()
    ids = {row.experiment_id for row in rows}
    known = select(Experiment).where(Experiment.id.in_(ids)).options(joinedload(Experiment.dataset))
    found = {one.id: one for one in session.scalars(known)}
    runs = [RunRow(*row) for row in rows if row.experiment_id in found]  # one may have been removed since
    for run in runs:
        run.experiment = found[run.experiment_id]
    return runs
