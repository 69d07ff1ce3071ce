"""What the runs that were found differ in, told by the database, however many they are."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, case, func, or_, select

from app.context import Context
from app.db.config import TrainingOptions
from app.db.models import Dataset, Experiment, Run, RunStatus
from app.db.penalty import READERS, Regularizer
from app.search.kinds import Condition
from app.services.run_search import wanted_runs

OF_THE_DATA = ("model", "task", "text_columns", "label_column")
"""Settings that have a column of their own, or go with the data set."""
MOVING = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.STREAMING)
"""Runs that may look otherwise in a moment."""


class Columns(NamedTuple):
    """What the found runs differ in and what some of them might have, and whether one of them is under way."""

    varying: list[str]
    """In the order of a table: who they are, the regularizer with λ and ζ, further settings, the seed."""
    shared: list[str]
    """In the same order, what is the same for all of them and may differ in others."""
    live: bool


def read_columns(context: Context, q: str, *, experiment_id: str | None = None) -> Columns:
    """Look at all runs that are searched for, in two queries. Raises InvalidError of ``q``."""
    wanted = wanted_runs(q, experiment_id)
    found = select(Run.experiment_id).join(Run.experiment).join(Experiment.dataset).where(*wanted)
    with context.sessions() as session:
        settings = select(Experiment.config, Experiment.grid).where(Experiment.id.in_(found))
        fields = _fields(session.execute(settings).all())
        columns = _columns(fields)
        counts = [func.count(column.distinct()) for column in columns.values()]
        moving = func.count(case((Run.status.in_(MOVING), 1)))
        counted = select(moving, *counts).select_from(Run).join(Run.experiment).join(Experiment.dataset)
        live, *different = session.execute(counted.where(*wanted)).one()
    distinct = dict(zip(columns, different, strict=True))
    known = [name for name in columns if name not in ("experiment", "task", "model") or experiment_id is None]
    return Columns(
        varying=[name for name in columns if distinct[name] > 1],
        shared=[name for name in known if distinct[name] == 1],
        live=live > 0,
    )


def _fields(experiments: Sequence[Any]) -> list[str]:
    """Settings that these experiments, or the runs of one, may differ in."""

    def differ(name: str) -> bool:
        several = any(len(grid.get(name, ())) > 1 for _, grid in experiments)
        return several or len({repr(config.get(name)) for config, _ in experiments}) > 1

    return [name for name in TrainingOptions.model_fields if name not in OF_THE_DATA and differ(name)]


def _columns(fields: Collection[str]) -> Mapping[str, ColumnElement[Any]]:
    """Of each column what is counted: null where it means nothing to a run."""
    swept = and_(Run.regularizer != Regularizer.NONE, Run.lam != 0)
    return {
        "experiment": Run.experiment_id.expression,
        "task": Dataset.name.expression,
        "model": Run.model.expression,
        "regularizer": case((swept, Run.regularizer)),
        "lam": Run.lam.expression,
        "zeta": case((_reads("zeta"), Run.zeta)),
        **{name: case((_reads(name), func.coalesce(Run.config[name].as_string(), ""))) for name in fields},
        "seed": Run.seed.expression,
    }


def _reads(field: str) -> Condition:
    """Runs to which a setting means something: see ``app.db.penalty.is_read``."""
    if field not in READERS:
        return Run.id.is_not(None)
    readers = READERS[field]
    beside = (Run.config[("beside", name.value)].as_float().is_not(None) for name in readers)
    return or_(and_(Run.regularizer.in_(readers), Run.lam != 0), *beside)
