"""Dry runs: eight rows and a few steps of a sweep that is not launched yet."""

import hashlib
import json
from collections.abc import Sequence

from sqlalchemy import delete, func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.context import Context
from app.db import job_kinds
from app.db.config import RunConfig
from app.db.models import DryRun, ResultStatus
from app.db.session import hold
from app.queue import Job
from app.services.estimates import kind_of
from app.services.sweeps import SweepPlan
from isoscope.core.errors import ConflictError, NotFoundError

KEPT = 50
"""Dry runs that are kept; the oldest go."""
MAX_QUEUED = 5
"""Dry runs that may wait at once: each takes a model's device from the runs."""
RESULTS = 3
"""The form of a dry run's results; another number, and what was told in an older form is asked for again."""
MAX_KINDS = 12
"""Kinds of steps that are timed; a sweep of more is estimated by the dearest of these."""


def find_dry_run(context: Context, plan: SweepPlan) -> DryRun | None:
    """The dry run of what a plan would train, if it was asked for."""
    with context.sessions() as session:
        return session.scalar(select(DryRun).where(DryRun.key == _key_of(plan)))


def get_dry_run(context: Context, dry_run_id: str) -> DryRun:
    """One dry run with its results, null until there are any."""
    with context.sessions() as session:
        found = session.get(DryRun, dry_run_id)
    if found is None:
        raise NotFoundError(f"There is no dry run {dry_run_id!r}; only the last {KEPT} are kept. Ask for it again.")
    return found


def request_dry_run(context: Context, plan: SweepPlan, *, again: bool = False) -> DryRun:
    """Have eight rows and a few steps of every kind that a plan has tried; ``again`` where they were already.

    Failed ones are tried again in any case. Raises ConflictError where too many wait.
    """
    found = find_dry_run(context, plan)
    if found is None or (again and found.status is ResultStatus.READY):
        _add(context, plan, instead_of=found)
    elif found.status is ResultStatus.FAILED:
        _repeat(context, found.id)
    if (asked := find_dry_run(context, plan)) is None:
        raise ConflictError("The data set or this dry run was deleted at the same moment; ask again.")
    return asked


def delete_dry_run(context: Context, dry_run_id: str) -> None:
    """Delete a dry run; one that waits or is at work is stopped."""
    get_dry_run(context, dry_run_id)
    with context.sessions.begin() as session:
        session.execute(delete(DryRun).where(DryRun.id == dry_run_id))
    context.queue.cancel(Job(job_kinds.DRY_RUN, dry_run_id))


def _kinds(runs: Sequence[RunConfig]) -> list[RunConfig]:
    """The first run of each kind."""
    first: dict[str, RunConfig] = {}
    for run in runs:
        first.setdefault(kind_of(run), run)
    return list(first.values())[:MAX_KINDS]


def _key_of(plan: SweepPlan) -> str:
    parts = [RESULTS, plan.dataset.id, *(kind_of(run) for run in _kinds(plan.runs))]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _require_room(session: Session) -> None:
    """Refuse a further one where as many wait as may; two who ask at this moment ask one after the other."""
    hold(session.connection(), "dry-runs")
    waiting = select(func.count()).select_from(DryRun).where(DryRun.status == ResultStatus.QUEUED)
    n = session.scalar(waiting) or 0
    if n >= MAX_QUEUED:
        raise ConflictError(
            f"{n} dry runs wait for a worker already, which is as many as may. Wait until one is done, or delete one: "
            "DELETE /api/dry-runs/{id} takes it back."
        )


def _repeat(context: Context, dry_run_id: str) -> None:
    failed = update(DryRun).where(DryRun.id == dry_run_id, DryRun.status == ResultStatus.FAILED)
    queued = failed.values(status=ResultStatus.QUEUED, error=None, attempts=0)
    with context.sessions.begin() as session:
        _require_room(session)
        session.execute(queued)


def _add(context: Context, plan: SweepPlan, instead_of: DryRun | None) -> None:
    """Ask for a dry run; the one in whose place it comes goes only where there is room for it."""
    asked = DryRun(dataset_id=plan.dataset.id, key=_key_of(plan), configs=_kinds(plan.runs))
    newest = select(DryRun.id).order_by(DryRun.created_at.desc(), DryRun.id).limit(KEPT)
    try:
        with context.sessions.begin() as session:
            _require_room(session)
            if instead_of is not None:
                session.execute(delete(DryRun).where(DryRun.id == instead_of.id))
            session.add(asked)
            session.flush()
            kept = list(session.scalars(newest))
            session.execute(delete(DryRun).where(DryRun.id.not_in(kept), DryRun.status != ResultStatus.QUEUED))
    except IntegrityError:
        return  # the same was asked for, or the data set deleted, at this moment: a look will tell
