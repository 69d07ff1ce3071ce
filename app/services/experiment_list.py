"""The list of experiments: searched by their runs and told in sums, so that no run is read for it."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Float, func, select
from sqlalchemy import cast as sql_cast
from sqlalchemy.orm import Session, joinedload, raiseload

from app.context import Context
from app.db.models import Experiment, Run, RunStatus
from app.services.experiments import NEWEST_FIRST
from app.services.library import PAGE_ROWS
from app.services.run_search import wanted_runs

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


def list_summaries(context: Context, q: str = "", *, limit: int = PAGE_ROWS, offset: int = 0) -> Summaries:
    """Experiments with a run that is searched for, the newest first; all where nothing is. InvalidError of ``q``."""
    found = select(Run.experiment_id).join(Run.experiment).join(Experiment.dataset).where(*wanted_runs(q))
    wanted = [Experiment.id.in_(found)] if q else []
    newest = select(Experiment).where(*wanted).order_by(*NEWEST_FIRST).limit(limit).offset(offset)
    counted = select(func.count()).select_from(Experiment).where(*wanted)
    with context.sessions() as session:
        experiments = session.scalars(newest.options(joinedload(Experiment.dataset), raiseload(Experiment.runs))).all()
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
    place = func.coalesce(func.round(sql_cast(PLACES * (Run.performance - ends.c.lowest) / extent, Float)), 0)
    drawn = select(Run.experiment_id, Run.lam, place).join(ends, ends.c.experiment_id == Run.experiment_id)
    marks: dict[str, list[Mark]] = {one: [] for one in ids}
    for of, lam, at in session.execute(drawn.where(Run.performance.is_not(None)).distinct().order_by(Run.lam, place)):
        marks[of].append(Mark(lam, at / PLACES))
    spreads = {of: Spread(*rest) for of, *rest in session.execute(select(ends))}
    nothing = Spread(0, None, None)
    return [Listed(one, counts[one.id], spreads.get(one.id, nothing), marks[one.id]) for one in experiments]
