"""Runs of all experiments: searched and sorted by the database, a page at a time or all that a figure can show."""

from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import selectinload

from app.context import Context
from app.db.models import Experiment, Run
from app.search.condition import conditions, sort_column
from app.search.kinds import Condition
from app.services.experiments import IN_A_LIST
from app.services.library import MAX_PAGE, PAGE_ROWS

NEWEST_FIRST = (
    Experiment.created_at.desc(), Experiment.id.expression, Run.position.expression, Run.id.expression
)  # fmt: skip
MOST = 1000
"""Runs that a figure is made of at once."""


class RunQuery(NamedTuple):
    """Which runs, in which order, and which page of them."""

    q: str = ""
    """See ``app.search``."""
    sort: str = ""
    """A field of ``app.search.fields``; empty for those of the newest experiment first, as they were planned."""
    descending: bool = False
    page: int = 1
    """From 1."""

    @classmethod
    def of(cls, q: str, sort: str, page: int = 1) -> "RunQuery":
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
    rows = _runs().where(*wanted).order_by(*_order(query)).limit(limit).offset(offset)
    counted = select(func.count(Run.id)).join(Run.experiment).join(Experiment.dataset).where(*wanted)
    with context.sessions() as session:
        return Page(list(session.scalars(rows)), session.scalar(counted) or 0)


def matching(context: Context, q: str, *, most: int = MOST) -> Page:
    """All runs that are searched for, for a figure or a table of groups; the newest where there are more than most."""
    return list_runs(context, RunQuery(q), limit=most)


def wanted_runs(q: str, experiment_id: str | None = None) -> list[Condition]:
    """What must hold of runs, joined with their experiment and data set, that are searched for."""
    return [*conditions(q), *([] if experiment_id is None else [Run.experiment_id == experiment_id])]


def _runs() -> Select[Run]:
    # Read once each, not again in every row of a run of theirs.
    with_experiment = selectinload(Run.experiment).joinedload(Experiment.dataset)
    return select(Run).join(Run.experiment).join(Experiment.dataset).options(with_experiment, *IN_A_LIST)


def _order(query: RunQuery) -> tuple[ColumnElement[Any], ...]:
    if not query.sort:
        return NEWEST_FIRST
    column = sort_column(query.sort)
    return (column.desc() if query.descending else column.asc()).nulls_last(), *NEWEST_FIRST
