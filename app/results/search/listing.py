"""Runs and experiments found: a page at a time, with what they differ in, told by the database."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from sqlalchemy import JSON, ColumnElement, Float, Select, Text, and_, case, cast, func, select, type_coerce
from sqlalchemy.orm import Session, raiseload, selectinload

from app.context import MAX_PAGE, PAGE_ROWS, Context
from app.db.config import RunConfig, TrainingOptions
from app.db.models import Dataset, Experiment, Run, RunStatus
from app.db.reported_config import AnyRunConfig, ReportedRunConfig
from app.db.run_rows import RunRow, read_run_rows
from app.descriptions.service import has_tag
from app.results.search.conditions import conditions, sort_column
from app.results.search.kinds import Condition
from app.results.setting import distinct_values, setting_of
from app.training.experiments import IN_A_LIST, NEWEST_FIRST, WITH_TAGS
from isotropy.catalog import Regularizer, TokenPooling

RUNS_NEWEST_FIRST = (
    Experiment.created_at.desc(), Experiment.id.expression, Run.position.expression, Run.id.expression
)  # fmt: skip
MOST = 1000
"""Runs that a figure is made of at once."""


class RunQuery(NamedTuple):
    """Which runs, in which order, and which page of them."""

    q: str = ""
    """See ``app.results.search``."""
    sort: str = ""
    """A field of ``app.results.search``; empty: those of the newest experiment first, as they were planned."""
    descending: bool = False
    page: int = 1
    """From 1."""

    @classmethod
    def parse(cls, q: str, sort: str, page: int = 1) -> "RunQuery":
        """As a URL has it, where a minus before the field asks for the greatest or newest first."""
        return cls(q.strip(), sort.removeprefix("-"), sort.startswith("-"), page)

    @property
    def sort_key(self) -> str:
        """The order as a URL has it."""
        return f"-{self.sort}" if self.descending else self.sort


class Page(NamedTuple):
    """Some of the runs that were found, and how many there are."""

    runs: list[Run]
    total: int


class Matching(NamedTuple):
    """Runs of a search for figures and tables, and how many there are."""

    runs: list[RunRow]
    total: int


def find_runs(context: Context, query: RunQuery, *, experiment_id: str | None = None) -> Page:
    """A page of the runs that are searched for, of one experiment or of all; none beyond the last page.

    Each comes with its experiment and data set, without what ``IN_A_LIST`` names. Raises InvalidError of ``q`` or
    ``sort``.
    """
    offset = (min(query.page, MAX_PAGE) - 1) * PAGE_ROWS
    return list_runs(context, query, limit=PAGE_ROWS, offset=offset, experiment_id=experiment_id)


def list_runs(
    context: Context, query: RunQuery, *, limit: int, offset: int = 0, experiment_id: str | None = None
) -> Page:
    """Runs ``offset`` to ``offset + limit`` of those that are searched for, whatever the query's page."""
    wanted = wanted_runs(query.q, experiment_id)
    rows = _runs().options(selectinload(Run.tags)).where(*wanted).order_by(*_order(query)).limit(limit).offset(offset)
    with context.sessions() as session:
        return Page(list(session.scalars(rows)), _count(session, wanted))


def matching(context: Context, q: str, *, most: int = MOST) -> Matching:
    """All runs that are searched for, for a figure or a table of groups; the newest where there are more than most."""
    wanted = wanted_runs(q)
    # The database sorts ids, not the rows, which are wide.
    newest = select(Run.id).join(Run.experiment).join(Experiment.dataset).where(*wanted)
    ids = newest.order_by(*RUNS_NEWEST_FIRST).limit(most)
    with context.sessions() as session:
        runs = read_run_rows(session, Run.id.in_(ids))
        total = _count(session, wanted)
    runs.sort(key=lambda run: (run.experiment_id, run.position, run.id))
    runs.sort(key=lambda run: run.experiment.created_at, reverse=True)
    return Matching(runs, total)


def _count(session: Session, wanted: Collection[Condition]) -> int:
    # Rows, not ids: these are in no index with the rest, and to read them takes the rows, which are wide.
    counted = select(func.count()).select_from(Run).join(Run.experiment).join(Experiment.dataset).where(*wanted)
    return session.scalar(counted) or 0


def wanted_runs(q: str, experiment_id: str | None = None) -> list[Condition]:
    """What must hold of runs, joined with their experiment and data set, that are searched for."""
    return [*conditions(q), *([] if experiment_id is None else [Run.experiment_id == experiment_id])]


def _runs() -> Select[Run]:
    # Read once each, not again in every row of a run of theirs.
    with_experiment = selectinload(Run.experiment).joinedload(Experiment.dataset)
    return select(Run).join(Run.experiment).join(Experiment.dataset).options(with_experiment, *IN_A_LIST)


def _order(query: RunQuery) -> tuple[ColumnElement[Any], ...]:
    if not query.sort:
        return RUNS_NEWEST_FIRST
    column = sort_column(query.sort)
    return (column.desc() if query.descending else column.asc()).nulls_last(), *RUNS_NEWEST_FIRST


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
    distinct |= {field: len(values) for field, values in distinct_values(fields, kinds).items()}
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
    said["points"] = TokenPooling(said["points"]) if said["points"] else None
    if not said.pop("logged"):
        return RunConfig.model_construct(**said)
    known = {name: value for name, value in said.items() if value not in (None, {})}
    return ReportedRunConfig.model_construct({"logged", *known}, logged=True, **known)


PLACES = 68
"""Places on a line on which performances are told apart: one for two pixels."""


class Mark(NamedTuple):
    """One run or several alike on the line from the lowest performance to the highest."""

    lam: float
    place: float
    """0 to 1."""


class Spread(NamedTuple):
    """How many of an experiment's runs have a performance, and between which two all lie."""

    n: int
    lowest: float | None
    highest: float | None


class Listed(NamedTuple):
    """An experiment, how many of its runs are in each state, and how well they did."""

    experiment: Experiment
    counts: Counter[RunStatus]
    performance: Spread
    marks: list[Mark]

    @property
    def total(self) -> int:
        """How many runs it has."""
        return self.counts.total()

    @property
    def ended(self) -> int:
        """How many of them are over."""
        return sum(number for status, number in self.counts.items() if status.final)

    @property
    def status(self) -> RunStatus:
        """The state of all together."""
        return self.experiment.status_with(self.counts)


class Summaries(NamedTuple):
    """Some of the experiments that were found, and how many there are."""

    rows: list[Listed]
    total: int


Order = Literal[
    "name", "-name", "model", "-model", "task", "-task", "performance", "-performance", "launched", "-launched"
]
"""By what experiments are listed; with a minus from the last, greatest or newest."""
NEWEST: Order = "-launched"
OF_AN_EXPERIMENT: Mapping[str, ColumnElement[Any]] = {
    "name": func.lower(Experiment.name),
    "model": func.lower(type_coerce(Experiment.config, JSON)["model"].as_string()),
    "task": select(func.lower(Dataset.name)).where(Dataset.id == Experiment.dataset_id).scalar_subquery(),
    "performance": select(func.max(Run.performance)).where(Run.experiment_id == Experiment.id).scalar_subquery(),
    "launched": Experiment.created_at.expression,
}


class Narrowing(NamedTuple):
    """Which experiments are listed, besides what is searched for in their runs, and in which order."""

    tag: str = ""
    order: Order = NEWEST


EVERYTHING = Narrowing()


def list_summaries(
    context: Context, q: str = "", narrowed: Narrowing = EVERYTHING, *, limit: int = PAGE_ROWS, offset: int = 0
) -> Summaries:
    """Experiments with a run that is searched for, in order; all where nothing is. InvalidError of ``q``."""
    found = select(Run.experiment_id).join(Run.experiment).join(Experiment.dataset).where(*wanted_runs(q))
    wanted: list[Condition] = [Experiment.id.in_(found)] if q else []
    wanted += [has_tag(Experiment, narrowed.tag)] if narrowed.tag else []
    key = OF_AN_EXPERIMENT[narrowed.order.removeprefix("-")]
    order = (key.desc() if narrowed.order.startswith("-") else key.asc()).nulls_last()
    listed = select(Experiment).where(*wanted).order_by(order, *NEWEST_FIRST).limit(limit).offset(offset)
    counted = select(func.count()).select_from(Experiment).where(*wanted)
    with context.sessions() as session:
        experiments = session.scalars(listed.options(*WITH_TAGS, raiseload(Experiment.runs))).all()
        return Summaries(_summed(session, experiments), session.scalar(counted) or 0)


def _summed(session: Session, experiments: Sequence[Experiment]) -> list[Listed]:
    ids = [experiment.id for experiment in experiments]
    counts: dict[str, Counter[RunStatus]] = {one: Counter() for one in ids}
    states = select(Run.experiment_id, Run.status, func.count()).where(Run.experiment_id.in_(ids))
    for of, status, number in session.execute(states.group_by(Run.experiment_id, Run.status)):
        counts[of][status] = number
    ends = (
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
    extent = func.nullif(ends.c.highest - ends.c.lowest, 0)
    place = func.coalesce(func.round(cast(PLACES * (Run.performance - ends.c.lowest) / extent, Float)), 0)
    drawn = select(Run.experiment_id, Run.lam, place).join(ends, ends.c.experiment_id == Run.experiment_id)
    marks: dict[str, list[Mark]] = {one: [] for one in ids}
    for of, lam, at in session.execute(drawn.where(Run.performance.is_not(None)).distinct().order_by(Run.lam, place)):
        marks[of].append(Mark(lam, at / PLACES))
    spreads = {of: Spread(*rest) for of, *rest in session.execute(select(ends))}
    nothing = Spread(0, None, None)
    return [Listed(one, counts[one.id], spreads.get(one.id, nothing), marks[one.id]) for one in experiments]
