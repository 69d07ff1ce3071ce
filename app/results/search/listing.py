"""Search runs and experiments page by page, and find the settings in which they differ."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from sqlalchemy import JSON, ColumnElement, Float, Select, Text, and_, case, cast, func, select, type_coerce
from sqlalchemy.orm import Session, joinedload, load_only, raiseload, selectinload

from app.context import PAGE_ROWS, Context
from app.db.config import TrainingOptions
from app.db.models import Dataset, Experiment, Run, RunStatus
from app.db.run_rows import RunRow, read_run_rows
from app.descriptions.service import has_tag
from app.results.run_table import setting_of
from app.results.search.conditions import parse_conditions, sort_column
from app.results.search.kinds import Condition
from app.training.experiments import NEWEST_FIRST, WITH_DATASET_AND_TAGS, WITHOUT_LARGE_COLUMNS
from app.web.dependencies import Row
from isotropy.catalog import Regularizer

RunSelect = TypeVar("RunSelect", bound=Select[*tuple[Any, ...]])
# By experiment, newest first; then in planned order.
RUNS_NEWEST_FIRST = (
    Experiment.created_at.desc(), Experiment.id.expression, Run.position.expression, Run.id.expression
)  # fmt: skip
MAX_MATCHING_RUNS = 1000
"""Maximum number of runs in a figure or a table of means."""


class RunQuery(NamedTuple):
    """A search for runs, its order, and the page."""

    q: str = ""
    sort: str = ""
    """A field of the search. Empty: newest experiment first, then in planned order."""
    descending: bool = False
    page: int = 1

    @classmethod
    def parse(cls, q: str, sort: str, page: int = 1) -> "RunQuery":
        """Parse URL parameters; a leading minus of ``sort`` means descending."""
        return cls(q.strip(), sort.removeprefix("-"), sort.startswith("-"), page)

    @property
    def sort_key(self) -> str:
        return f"-{self.sort}" if self.descending else self.sort


class RunPage(NamedTuple):
    """A page of runs, and the number of all runs found."""

    runs: list[Run]
    total: int


class MatchingRuns(NamedTuple):
    """Runs of a search for figures and tables, and the number of all runs found."""

    runs: list[RunRow]
    total: int


def list_runs(
    context: Context, query: RunQuery, *, limit: int = PAGE_ROWS, offset: int = 0, experiment_id: str | None = None
) -> RunPage:
    """Return the ``limit`` runs of a search, in one experiment or in all, that follow the first ``offset`` ones.

    The query's page is ignored. Runs are loaded with experiment and data set, without large columns. Raise
    InvalidError for ``q`` or ``sort``.
    """
    conditions = run_conditions(query.q, experiment_id)
    order: tuple[ColumnElement[Any], ...] = RUNS_NEWEST_FIRST
    if query.sort:
        column = sort_column(query.sort)
        order = (column.desc() if query.descending else column.asc()).nulls_last(), *RUNS_NEWEST_FIRST
    # Each experiment is read once, not again in every row of its runs.
    with_experiment = selectinload(Run.experiment).joinedload(Experiment.dataset)
    rows = (
        select(Run)
        .join(Run.experiment)
        .join(Experiment.dataset)
        .options(with_experiment, selectinload(Run.tags), *WITHOUT_LARGE_COLUMNS)
        .where(*conditions)
        .order_by(*order)
    )
    with context.sessions() as session:
        return RunPage(list(session.scalars(rows.limit(limit).offset(offset))), _count_runs(session, conditions))


def find_matching_runs(context: Context, q: str, *, limit: int = MAX_MATCHING_RUNS) -> MatchingRuns:
    """Return ``limit`` runs of a search, from the newest experiments, for a figure or a table."""
    conditions = run_conditions(q)
    # Sort ids instead of rows, because rows are wide.
    newest = select(Run.id).join(Run.experiment).join(Experiment.dataset).where(*conditions)
    ids = newest.order_by(*RUNS_NEWEST_FIRST).limit(limit)
    with context.sessions() as session:
        runs = read_run_rows(session, Run.id.in_(ids))
        total = _count_runs(session, conditions)
    runs.sort(key=lambda run: (run.experiment_id, run.position, run.id))
    runs.sort(key=lambda run: run.experiment.created_at, reverse=True)
    return MatchingRuns(runs, total)


def _count_runs(session: Session, conditions: Collection[Condition]) -> int:
    # Use count(*): counting ids would read the rows, which are wide.
    return session.scalar(_restrict(select(func.count()).select_from(Run), conditions)) or 0


def run_conditions(q: str, experiment_id: str | None = None) -> list[Condition]:
    return [*parse_conditions(q), *([] if experiment_id is None else [Run.experiment_id == experiment_id])]


def _restrict(query: RunSelect, conditions: Collection[Condition]) -> RunSelect:
    """Restrict a query of runs. Without conditions, it joins no tables, which would triple the time of SQLite."""
    return query.join(Run.experiment).join(Experiment.dataset).where(*conditions) if conditions else query


NOT_COMPARED = ("model", "task", "text_columns", "label_column")
"""Options that have their own column or belong to the data set."""
LIVE_STATUSES = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.STREAMING)
"""Statuses of runs that may still change."""
COUNTED_COLUMNS: Mapping[str, ColumnElement[Any]] = {
    "model": Run.model.expression,
    "regularizer": case((and_(Run.regularizer != Regularizer.NONE, Run.lam != 0), Run.regularizer)),
    "lam": Run.lam.expression,
    "seed": Run.seed.expression,
}
"""Columns whose distinct values are counted in SQL. Plain training has no regularizer, and null is not counted."""


class RunColumns(NamedTuple):
    """Fields of the runs of a search: those with several values, and those with the same value in all runs.

    Both are in table order: experiment, task, model, regularizer, λ, ζ, options, seed.
    """

    varying: list[str]
    shared: list[str]
    is_live: bool  # a run may still change
    has_baselines: bool


def read_columns(context: Context, q: str, *, experiment_id: str | None = None) -> RunColumns:
    """Return the fields in which the runs of a search differ or agree. Raise InvalidError for ``q``."""
    conditions = run_conditions(q, experiment_id)
    experiment_ids = _restrict(select(Run.experiment_id), conditions)
    with context.sessions() as session:
        experiment_query = select(Experiment).where(Experiment.id.in_(experiment_ids))
        with_name = joinedload(Experiment.dataset).load_only(Dataset.name)
        compared = load_only(Experiment.config, Experiment.grid)
        experiments = session.scalars(experiment_query.options(compared, with_name)).all()
        fields = [
            name
            for name in TrainingOptions.model_fields
            if name not in NOT_COMPARED
            and (
                any(len(experiment.grid.get(name, ())) > 1 for experiment in experiments)
                or len({json.dumps(experiment.config.value(name)) for experiment in experiments}) > 1
            )
        ]
        runs = _read_representatives(session, fields, experiments, conditions)
        counts = [func.count(column.distinct()) for column in COUNTED_COLUMNS.values()]
        live = func.count(case((Run.status.in_(LIVE_STATUSES), 1)))
        count_query = _restrict(select(live, *counts).select_from(Run), conditions)
        n_live, *n_distinct = session.execute(count_query).one()
    distinct_counts = dict(zip(COUNTED_COLUMNS, n_distinct, strict=True))
    distinct_counts |= {
        "experiment": len(experiments),
        "task": len({experiment.dataset.name for experiment in experiments}),
    }
    distinct_counts["zeta"] = len({setting_of(run, []).zeta for run in runs} - {None})
    value_rows = {setting_of(run, fields).values for run in runs}
    distinct_counts |= {field: len({row[index] for row in value_rows} - {None}) for index, field in enumerate(fields)}
    columns = ["experiment", "task", "model", "regularizer", "lam", "zeta", *fields, "seed"]
    candidates = [name for name in columns if name not in ("experiment", "task", "model") or experiment_id is None]
    return RunColumns(
        varying=[name for name in columns if distinct_counts[name] > 1],
        shared=[name for name in candidates if distinct_counts[name] == 1],
        is_live=n_live > 0,
        has_baselines=any(setting_of(run, []).is_baseline for run in runs),
    )


def _read_representatives(
    session: Session,
    fields: Collection[str],
    experiments: Sequence[Experiment],
    conditions: Collection[Condition],
) -> Sequence[Run]:
    """Return a run for each experiment, regularizer, λ or none, ζ, and values of the fields.

    Options outside the grid of a launched experiment are equal in its runs. They are not compared, because PostgreSQL
    takes 0.1 s to read one option of 10,000 runs.
    """
    compared = [
        cast(Run.config[name], Text)
        for name in ("fixed_regularizers", "points", *fields)
        if any(experiment.logged or name in experiment.grid for experiment in experiments)
    ]
    ids = select(func.min(Run.id)).group_by(Run.experiment_id, Run.regularizer, Run.lam != 0, Run.zeta, *compared)
    runs = select(Run).where(Run.id.in_(_restrict(ids, conditions)))
    return session.scalars(runs.options(load_only(Run.config, Run.regularizer, Run.lam, Run.zeta))).all()


STRIP_STEPS = 68
"""Steps from an experiment's lowest performance to its highest in a strip. The template draws two pixels for each."""


class PerformanceSpread(Row):
    """Number and range of an experiment's performances. The range is None without any."""

    n: int
    lowest: float | None
    highest: float | None


class ListedExperiment(NamedTuple):
    """An experiment in a list, with counts of run states and its performances."""

    experiment: Experiment
    counts: Counter[RunStatus]
    performance: PerformanceSpread
    positions_by_lambda: dict[float, list[int]]
    """Positions of performances in the strip, from 0 to ``STRIP_STEPS``, in order of λ."""

    @property
    def n_runs(self) -> int:
        return self.counts.total()

    @property
    def n_ended(self) -> int:
        return sum(number for status, number in self.counts.items() if status.final)

    @property
    def status(self) -> RunStatus:
        return self.experiment.combine_status(self.counts)


class ExperimentPage(NamedTuple):
    """A page of experiments, and the number of all found."""

    rows: list[ListedExperiment]
    total: int


ExperimentOrder = Literal[
    "name", "-name", "model", "-model", "task", "-task", "performance", "-performance", "launched", "-launched"
]
"""A leading minus sorts descending."""
NEWEST: ExperimentOrder = "-launched"
EXPERIMENT_ORDERS: Mapping[str, ColumnElement[Any]] = {
    "name": func.lower(Experiment.name),
    "model": func.lower(type_coerce(Experiment.config, JSON)["model"].as_string()),
    "task": select(func.lower(Dataset.name)).where(Dataset.id == Experiment.dataset_id).scalar_subquery(),
    "performance": select(func.max(Run.performance)).where(Run.experiment_id == Experiment.id).scalar_subquery(),
    "launched": Experiment.created_at.expression,
}


class ExperimentFilter(NamedTuple):
    """A tag that experiments must have (empty: any or none), and their order."""

    tag: str = ""
    order: ExperimentOrder = NEWEST


ALL_EXPERIMENTS = ExperimentFilter()


def list_experiments(
    context: Context,
    q: str = "",
    criteria: ExperimentFilter = ALL_EXPERIMENTS,
    *,
    limit: int = PAGE_ROWS,
    offset: int = 0,
) -> ExperimentPage:
    """Return a page of experiments with a run that matches ``q``. Raise InvalidError for ``q``."""
    experiment_ids = _restrict(select(Run.experiment_id), run_conditions(q))
    conditions: list[Condition] = [Experiment.id.in_(experiment_ids)] if q else []
    conditions += [has_tag(Experiment, criteria.tag)] if criteria.tag else []
    key = EXPERIMENT_ORDERS[criteria.order.removeprefix("-")]
    order = (key.desc() if criteria.order.startswith("-") else key.asc()).nulls_last()
    experiment_query = select(Experiment).where(*conditions).order_by(order, *NEWEST_FIRST).limit(limit).offset(offset)
    count_query = select(func.count()).select_from(Experiment).where(*conditions)
    with context.sessions() as session:
        loading_query = experiment_query.options(*WITH_DATASET_AND_TAGS, raiseload(Experiment.runs))
        experiments = session.scalars(loading_query).all()
        return ExperimentPage(_add_summaries(session, experiments), session.scalar(count_query) or 0)


def _add_summaries(session: Session, experiments: Sequence[Experiment]) -> list[ListedExperiment]:
    ids = [experiment.id for experiment in experiments]
    counts: dict[str, Counter[RunStatus]] = {experiment_id: Counter() for experiment_id in ids}
    status_query = select(Run.experiment_id, Run.status, func.count()).where(Run.experiment_id.in_(ids))
    for experiment_id, status, n in session.execute(status_query.group_by(Run.experiment_id, Run.status)):
        counts[experiment_id][status] = n
    ranges = (
        select(
            Run.experiment_id,
            func.count(Run.performance).label("n"),
            func.min(Run.performance).label("lowest"),
            func.max(Run.performance).label("highest"),
        )
        .where(Run.experiment_id.in_(ids))
        .group_by(Run.experiment_id)
        .subquery()
    )
    extent = func.nullif(ranges.c.highest - ranges.c.lowest, 0)
    offset = Run.performance - ranges.c.lowest
    position = func.coalesce(func.round(cast(STRIP_STEPS * offset / extent, Float)), 0)
    mark_query = select(Run.experiment_id, Run.lam, position).join(ranges, ranges.c.experiment_id == Run.experiment_id)
    mark_query = mark_query.where(Run.performance.is_not(None)).distinct().order_by(Run.lam, position)
    strips: dict[str, dict[float, list[int]]] = {experiment_id: {} for experiment_id in ids}
    for experiment_id, lam, strip_position in session.execute(mark_query):
        strips[experiment_id].setdefault(lam, []).append(int(strip_position))
    spreads = {row.experiment_id: PerformanceSpread.model_validate(row) for row in session.execute(select(ranges))}
    no_runs = PerformanceSpread(n=0, lowest=None, highest=None)
    return [
        ListedExperiment(experiment, counts[experiment.id], spreads.get(experiment.id, no_runs), strips[experiment.id])
        for experiment in experiments
    ]
