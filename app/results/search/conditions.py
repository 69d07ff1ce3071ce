"""From a search to conditions on rows: the fields that it names, and parameters, never SQL."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, case, false, func, not_, or_

from app.db.config import TrainingOptions
from app.db.models import Dataset, Experiment, Run, RunStatus, RunTag
from app.db.options.option import single_type
from app.db.options.regularization import NAMES
from app.results.search.kinds import Choice, Condition, Day, Flag, Kind, Number, Tags, Text, UnreadableError
from app.results.search.language import Term, Value, read
from isoscope.core.errors import InvalidError
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
    "tag": Tags(Run.id.expression, RunTag.run_id.expression, RunTag.tag.expression),
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


def conditions(q: str) -> list[Condition]:
    """What must hold of runs that are joined with their experiment and data set. Raises InvalidError of ``q``."""
    return [_condition(term) for term in read(q)]


def sort_column(name: str) -> ColumnElement[Any]:
    """What a field is sorted by. Raises InvalidError of ``sort``."""
    if (kind := find_field(name)) is None:
        raise InvalidError(f"Expected a field to sort by, got {name!r}; {_meant(name)}", "sort")
    return kind.column


def _condition(term: Term) -> Condition:
    if not term.field:
        found = or_(*(kind.condition(":", value.text) for value in term.values for kind in ANYWHERE))
        return not_(found) if term.negated else found
    kind = _field(term)
    differs = term.operator == "!="
    operator = "=" if differs else term.operator
    if operator not in kind.operators:
        raise InvalidError(
            f"{term.field} at character {term.place} of the search is compared with "
            f"{', '.join(kind.operators)} or !=, got {term.operator}.",
            "q",
        )
    found = or_(*(_compared(kind, operator, term, value) for value in term.values))
    if differs == term.negated:
        return found
    # A comparison with nothing is neither true nor false to a database; here it does not hold.
    return not_(func.coalesce(found, false()))


def _field(term: Term) -> Kind:
    if (kind := find_field(term.field)) is None:
        raise InvalidError(
            f"There is no field {term.field!r}, at character {term.place} of the search; {_meant(term.field)} "
            "Quote words that are not fields.",
            "q",
        )
    return kind


def _compared(kind: Kind, operator: str, term: Term, value: Value) -> Condition:
    try:
        return kind.condition(operator, value.text)
    except UnreadableError as error:
        raise InvalidError(
            f"Expected {error} after {term.field}{term.operator} at character {value.place} of the search, "
            f"got {value.text!r}.",
            "q",
        ) from error


def _meant(name: str) -> str:
    """The likeliest fields, or all where none is like it."""
    likely = get_close_matches(name.lower(), FIELDS)
    return f"did you mean {' or '.join(likely)}?" if likely else f"known are {', '.join(sorted(FIELDS))}."
