"""The fields of runs that can be searched and sorted by, with all that a configuration says in one word."""

from collections.abc import Iterator, Mapping
from enum import StrEnum

from sqlalchemy import case

from app.db.config import TrainingOptions
from app.db.models import Dataset, Experiment, Run, RunStatus
from app.db.options.option import single_type
from app.regularizers import NAMES
from app.search.kinds import Choice, Day, Flag, Kind, Number, Text
from isoscope.core.task import Metric

OTHERWISE = {"task": "kind"}
"""Settings that are called otherwise here: a task is what its data set is called, not classification."""


def _kind(name: str, of: type, *, optional: bool) -> Kind | None:
    stored = Run.config[name]
    if issubclass(of, bool):
        return Flag(stored.as_boolean())
    if issubclass(of, int | float):
        return Number(stored.as_float())
    if issubclass(of, StrEnum):
        return Choice(stored.as_string(), {one.value: one.value.replace("_", " ") for one in of}, optional=optional)
    return Text(stored.as_string()) if issubclass(of, str) else None


def _settings() -> Iterator[tuple[str, Kind]]:
    for name, field in TrainingOptions.model_fields.items():
        of = single_type(field.annotation)
        if of is not None and (kind := _kind(name, of, optional=field.default is None)):
            yield OTHERWISE.get(name, name), kind


FIELDS: Mapping[str, Kind] = {
    **dict(_settings()),
    "task": Text(Dataset.name.expression),
    "experiment": Text(Experiment.name.expression, Experiment.id.expression),
    "model": Text(Run.model.expression),
    "regularizer": Choice(Run.regularizer.expression, NAMES),
    "lam": Number(Run.lam.expression),
    "zeta": Number(Run.zeta.expression),
    "seed": Number(Run.seed.expression),
    "status": Choice(Run.status.expression, {one: one.value for one in RunStatus}),
    "isoscore_star": Number(Run.isoscore_star.expression),
    "performance": Number(Run.performance.expression),
    **{
        metric.value: Number(case((Run.config["metric"].as_string() == metric.value, Run.performance.expression)))
        for metric in Metric
    },
    "launched": Day(Experiment.created_at.expression),
}
"""By name; of runs joined with their experiment and its data set. A metric is the performance of runs that have it."""

ALIASES: Mapping[str, str] = {
    "data": "task",
    "dataset": "task",
    "reg": "regularizer",
    "lambda": "lam",
    "λ": "lam",
    "ζ": "zeta",
    "iso": "isoscore_star",
    "perf": "performance",
    "acc": "accuracy",
    "date": "launched",
}

ANYWHERE = (FIELDS["experiment"], FIELDS["task"], FIELDS["model"])
"""Where words are looked for that name no field."""


def find_field(name: str) -> Kind | None:
    """The field that is so called, whatever the case."""
    lowered = name.lower()
    return FIELDS.get(ALIASES.get(lowered, lowered))
