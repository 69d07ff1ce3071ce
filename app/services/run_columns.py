"""What the runs that were found differ in, told by the database, however many they are."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Text, and_, case, cast, func, select
from sqlalchemy.orm import Session

from app.context import Context
from app.db.config import RunConfig, TrainingOptions
from app.db.models import Dataset, Experiment, Run, RunStatus
from app.db.regularizer_options import Points, Regularizer
from app.db.reported_config import AnyRunConfig, ReportedRunConfig
from app.results.setting import setting_of, told
from app.search.kinds import Condition
from app.services.run_search import wanted_runs

OF_THE_DATA = ("model", "task", "text_columns", "label_column")
"""Settings that have a column of their own, or go with the data set."""
MOVING = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.STREAMING)
"""Runs that may look otherwise in a moment."""
COUNTED: Mapping[str, ColumnElement[Any]] = {
    "experiment": Run.experiment_id.expression,
    "task": Dataset.name.expression,
    "model": Run.model.expression,
    "regularizer": case((and_(Run.regularizer != Regularizer.NONE, Run.lam != 0), Run.regularizer)),
    "lam": Run.lam.expression,
    "seed": Run.seed.expression,
}
"""Of each column that means something to every run what is counted; plain training is no regularizer."""


class Columns(NamedTuple):
    """What the found runs differ in and what some of them might have, and whether one of them is under way."""

    varying: list[str]
    """In the order of a table: who they are, the regularizer with λ and ζ, further settings, the seed."""
    shared: list[str]
    """In the same order, what is the same for all of them and may differ in others."""
    live: bool
    plain: bool
    """Whether plain training is among them."""


def read_columns(context: Context, q: str, *, experiment_id: str | None = None) -> Columns:
    """Look at all runs that are searched for, in three queries. Raises InvalidError of ``q``."""
    wanted = wanted_runs(q, experiment_id)
    found = select(Run.experiment_id).join(Run.experiment).join(Experiment.dataset).where(*wanted)
    with context.sessions() as session:
        settings = select(Experiment.config, Experiment.grid).where(Experiment.id.in_(found))
        fields = _fields(session.execute(settings).all())
        kinds = _kinds(session, fields, wanted)
        counts = [func.count(column.distinct()) for column in COUNTED.values()]
        moving = func.count(case((Run.status.in_(MOVING), 1)))
        counted = select(moving, *counts).select_from(Run).join(Run.experiment).join(Experiment.dataset)
        live, *different = session.execute(counted.where(*wanted)).one()
    distinct = dict(zip(COUNTED, different, strict=True))
    distinct["zeta"] = len({setting_of(kind, []).zeta for kind in kinds} - {None})
    distinct |= {field: len(values) for field, values in told(fields, kinds).items()}
    columns = [*(name for name in COUNTED if name != "seed"), "zeta", *fields, "seed"]
    known = [name for name in columns if name not in ("experiment", "task", "model") or experiment_id is None]
    return Columns(
        varying=[name for name in columns if distinct[name] > 1],
        shared=[name for name in known if distinct[name] == 1],
        live=live > 0,
        plain=any(setting_of(kind, []).baseline for kind in kinds),
    )


def _fields(experiments: Sequence[Any]) -> list[str]:
    """Settings that these experiments, or the runs of one, may differ in, so that the others are not looked at."""

    def differ(name: str) -> bool:
        several = any(len(grid.get(name, ())) > 1 for _, grid in experiments)
        return several or len({json.dumps(config.value(name)) for config, _ in experiments}) > 1

    return [name for name in TrainingOptions.model_fields if name not in OF_THE_DATA and differ(name)]


def _kinds(session: Session, fields: Collection[str], wanted: Collection[Condition]) -> list[Run]:
    """A run, of no table, for all that are alike in these settings and in what says whether they mean anything."""
    names = ["logged", *dict.fromkeys(("fixed_regularizers", "points", *fields))]
    said = [cast(Run.config[name], Text) for name in names]
    rows = select(Run.regularizer, Run.lam != 0, Run.zeta, *said).distinct()
    found = session.execute(rows.join(Run.experiment).join(Experiment.dataset).where(*wanted))
    return [
        Run(regularizer=regularizer, lam=float(swept), zeta=zeta, config=_config(dict(zip(names, texts, strict=True))))
        for regularizer, swept, zeta, *texts in found
    ]


def _config(texts: Mapping[str, str | None]) -> AnyRunConfig:
    """Part of a configuration; a script says nothing by null, which is all that SQLite tells of what is not there."""
    said: dict[str, Any] = {name: None if text is None else json.loads(text) for name, text in texts.items()}
    said["fixed_regularizers"] = {Regularizer(name): lam for name, lam in (said["fixed_regularizers"] or {}).items()}
    said["points"] = Points(said["points"]) if said["points"] else None
    if not said.pop("logged"):
        return RunConfig.model_construct(**said)
    known = {name: value for name, value in said.items() if value not in (None, {})}
    return ReportedRunConfig.model_construct(logged=True, **known)
