"""In which order waiting runs are taken: a number of each, lower first, and moves among those that wait."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from app.context import Context
from app.db.job_kinds import WAITED_FOR_PRIORITY
from app.db.models import FINAL, Experiment, Run, RunStatus
from app.db.models.runs import DEFAULT_PRIORITY, IN_TURN
from app.db.session import hold
from app.services.experiments import get_experiment
from app.services.runs import get_run
from isoscope.core.errors import ConflictError

FIRST_PRIORITY = WAITED_FOR_PRIORITY + 1
"""No run goes before what somebody looks at a page and waits for."""
LAST_PRIORITY = 1_000_000_000


class Place(StrEnum):
    """Where something is moved to among what waits."""

    FIRST = "first"
    UP = "up"
    DOWN = "down"
    LAST = "last"


class Turn(NamedTuple):
    """A waiting run and its number."""

    run_id: str
    priority: int


def move_run(context: Context, run_id: str, place: Place) -> Run:
    """Move a waiting run before or behind the others that wait; what works goes on."""
    with context.sessions.begin() as session:
        hold(session.connection(), "turns")
        waiting = _waiting(session)
        old = next((i for i, turn in enumerate(waiting) if turn.run_id == run_id), None)
        if old is not None:
            others = waiting[:old] + waiting[old + 1 :]
            new = {Place.FIRST: 0, Place.UP: max(old - 1, 0), Place.DOWN: old + 1, Place.LAST: len(others)}[place]
            if new != old:
                _number(session, put([run_id], others, min(new, len(others))))
    if old is None:
        run = get_run(context, run_id)
        raise ConflictError(f"Only a queued run can be moved in the queue; this one is {run.status}.")
    return get_run(context, run_id)


def move_experiment(context: Context, experiment_id: str, place: Place) -> Experiment:
    """Move what waits of an experiment before or behind all that waits of others; its own go as they were queued."""
    experiment = get_experiment(context, experiment_id)
    mine = {run.id for run in experiment.runs}
    with context.sessions.begin() as session:
        hold(session.connection(), "turns")
        waiting = _waiting(session)
        others = [turn for turn in waiting if turn.run_id not in mine]
        moved = [turn.run_id for turn in waiting if turn.run_id in mine]
        index = 0 if place in (Place.FIRST, Place.UP) else len(others)
        _number(session, put(moved, others, index))
    return get_experiment(context, experiment_id)


def set_run_priority(context: Context, run_id: str, priority: int) -> Run:
    """Give a run that has not ended its number."""
    if not _set(context, priority, Run.id == run_id):
        run = get_run(context, run_id)
        raise ConflictError(f"Only a run that has not ended has a place in the queue; this one is {run.status}.")
    return get_run(context, run_id)


def set_experiment_priority(context: Context, experiment_id: str, priority: int) -> Experiment:
    """Give all runs of an experiment that have not ended one number; none is no error."""
    get_experiment(context, experiment_id)
    _set(context, priority, Run.experiment_id == experiment_id)
    return get_experiment(context, experiment_id)


def put(moved: Sequence[str], others: Sequence[Turn], index: int) -> list[Turn]:
    """The numbers that change where ``moved`` go before the ``index``-th of the others.

    Of equal numbers who came first goes first, so that between two others there has to be a number of its own: where
    there is none, all behind are moved back as far as is needed.
    """
    if index == len(others):
        number = min(others[-1].priority + 1, LAST_PRIORITY) if others else DEFAULT_PRIORITY
        return [Turn(run_id, number) for run_id in moved]
    least = others[index - 1].priority + 1 if index else FIRST_PRIORITY
    number = max(least, others[index].priority - 1) if index == 0 else least
    back = max(number + 1 - others[index].priority, 0)
    behind = others[index:] if back else []
    return [Turn(run_id, number) for run_id in moved] + [Turn(one.run_id, one.priority + back) for one in behind]


def _waiting(session: Session) -> list[Turn]:
    rows = session.execute(select(Run.id, Run.priority).where(Run.status == RunStatus.QUEUED).order_by(*IN_TURN))
    return [Turn(run_id, priority) for run_id, priority in rows]


def _number(session: Session, turns: Sequence[Turn]) -> None:
    if turns:
        session.execute(update(Run), [{"id": turn.run_id, "priority": turn.priority} for turn in turns])


def _set(context: Context, priority: int, which: ColumnElement[bool]) -> Sequence[str]:
    changed = update(Run).where(which, Run.status.not_in(FINAL)).values(priority=priority).returning(Run.id)
    with context.sessions.begin() as session:
        hold(session.connection(), "turns")
        return session.scalars(changed).all()
