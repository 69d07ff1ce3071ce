"""Dry runs: eight rows and a few steps of a sweep, and what the whole sweep would take."""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.context import Context
from app.db import job_kinds
from app.db.config import OPTIONS, RunConfig
from app.db.job_kinds import Job
from app.db.models import DryRun, ResultStatus
from app.db.options.measuring import HELD_OUT_PART, LOOKS_PER_RUN, SelectionRows
from app.db.options.regularization import Refresh
from app.db.run_results import StepCosts
from app.db.session import hold
from app.db.types import utcnow
from app.training.sweeps import SweepPlan
from isoscope.core.errors import ConflictError, NotFoundError

WEIGHT_BYTES = 4
CHECKPOINT_WEIGHTS = 3
"""Numbers of a checkpoint for each weight: itself and the two moments of Adam."""
CHECKPOINTS_AT_ONCE = 2
"""The last one goes when the next one is whole."""

OF_NO_COST = frozenset(name for name, option in OPTIONS.items() if not option.slows)


@dataclass(frozen=True)
class Estimate:
    """What a sweep would take on the device that was timed, one run at a time, by the passes of its dry run.

    Low and high take the fastest and the slowest pass of every kind; the values between them take the mean.

    Not in it: early stops, evaluations that choose a checkpoint, writing checkpoints and models, downloads, and other
    work on the machine. Steps are timed in one process; those of a run in several count as long as that, without what
    the processes tell one another.
    """

    seconds: float
    low_seconds: float
    high_seconds: float
    longest_seconds: float
    """Of the run that takes longest."""
    longest_low_seconds: float
    longest_high_seconds: float
    steps: int
    """Of all runs together."""
    kept_bytes: int
    """Models that are kept for download."""
    passing_bytes: int
    """Checkpoints of the run that is trained; they go when it has ended."""
    kinds_untimed: int
    """Kinds of steps beyond those that a dry run times, which are taken to be as dear as the dearest timed."""


def estimate(plan: SweepPlan, dry_run: DryRun) -> Estimate | None:
    """What the runs of a plan would take by a dry run of it; None until it has results."""
    if dry_run.results is None:
        return None
    timed = {kind_of(config): place for place, config in enumerate(dry_run.configs)}
    kinds = dry_run.results.kinds
    dearest = max(range(len(kinds)), key=lambda place: kinds[place].seconds_per_step)
    mean: list[float] = []
    fastest: list[float] = []
    slowest: list[float] = []
    steps, untimed = 0, set()
    for run in plan.runs:
        kind = kind_of(run)
        if kind not in timed:
            untimed.add(kind)
        times = kinds[timed.get(kind, dearest)]
        of_run = _epoch_steps(plan, run, times) * run.epochs if run.epochs else run.max_steps or 0
        steps += of_run
        for of_runs, seconds in ((mean, {}), (fastest, times.fastest), (slowest, times.slowest)):
            of_runs.append(_seconds(plan, run, of_run, times.model_copy(update=seconds)))
    weights = max(kind.parameters for kind in kinds) * WEIGHT_BYTES
    return Estimate(
        seconds=sum(mean),
        low_seconds=sum(fastest),
        high_seconds=sum(slowest),
        longest_seconds=max(mean),
        longest_low_seconds=max(fastest),
        longest_high_seconds=max(slowest),
        steps=steps,
        kept_bytes=weights * sum(run.export for run in plan.runs),
        passing_bytes=weights * CHECKPOINT_WEIGHTS * CHECKPOINTS_AT_ONCE,
        kinds_untimed=len(untimed),
    )


def kind_of(run: RunConfig) -> str:
    """What a run's step costs by: the same text is the same cost."""
    values = run.model_dump(mode="json", exclude=set(OF_NO_COST))
    if not run.weights:
        values |= {"zeta": None, "layers": None, "points": None}
    return json.dumps([values, sorted(run.weights)], sort_keys=True)


def _seconds(plan: SweepPlan, run: RunConfig, steps: int, kind: StepCosts) -> float:
    """The beginning, steps, passes of the shrinkage covariance, looks at the layers, and the final measuring."""
    inputs = _inputs(plan, run, kind)
    rows = _passes(run, steps, _epoch_steps(plan, run, kind)) * min(kind.shrinkage_rows, inputs)
    if run.evaluation_zeta > 0:
        rows += min(kind.reference_rows, inputs)
    in_training = steps * kind.seconds_per_step + _looks(run, steps, kind) * kind.seconds_per_look
    return kind.seconds_to_load + in_training + rows * kind.seconds_per_row + _measuring(plan, run, kind)


def _measuring(plan: SweepPlan, run: RunConfig, kind: StepCosts) -> float:
    """Measures of the trained model on the validation rows, and its score on the test rows where there are any."""
    measured = _rows(run.validation_rows, plan.dataset.n_validation) * kind.inputs_per_row
    tested = (plan.dataset.n_test or 0) * kind.inputs_per_row
    of_pairs = kind.seconds_of_pairs * (min(measured, kind.most_pair_rows) / kind.pair_rows) ** 2
    by_row = measured * kind.seconds_per_measured_row + tested * kind.seconds_per_test_row
    return by_row + kind.seconds_per_measuring + of_pairs


def _rows(wanted: int | None, there: int | None) -> int:
    return min(wanted or there or 0, there or 0)


def _inputs(plan: SweepPlan, run: RunConfig, kind: StepCosts) -> float:
    """What is trained on: rows of the file, or windows, several of a row; without those held out to choose by."""
    rows = _rows(run.train_rows, plan.dataset.n_train)
    if run.selects and run.selection is SelectionRows.HELD_OUT:
        rows -= math.ceil(rows / HELD_OUT_PART)
    return rows * kind.inputs_per_row


def _epoch_steps(plan: SweepPlan, run: RunConfig, kind: StepCosts) -> int:
    return max(1, math.ceil(_inputs(plan, run, kind) / (run.batch_size * run.accumulation * run.processes)))


def _passes(run: RunConfig, steps: int, epoch_steps: int) -> int:
    """Estimates of the shrinkage covariance, of which one comes before the first step."""
    match run.shrinkage_refresh:
        case Refresh.EPOCH:
            return math.ceil(steps / epoch_steps)
        case Refresh.STEPS:
            return math.ceil(steps / run.shrinkage_every)
        case Refresh.AVERAGE:
            return 1


def _looks(run: RunConfig, steps: int, kind: StepCosts) -> int:
    """Looks at the layers: before the first step, every so many, and after the last."""
    every = run.probe_every or max(1, round(max(steps / LOOKS_PER_RUN, kind.least_steps_apart)))
    return 1 + math.ceil(steps / every)


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
    return context.scalar(select(DryRun).where(DryRun.key == _key_of(plan)))


def get_dry_run(context: Context, dry_run_id: str) -> DryRun:
    """One dry run with its results, null until there are any."""
    found = context.get(DryRun, dry_run_id)
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
    queued = failed.values(status=ResultStatus.QUEUED, error=None, attempts=0, queued_at=utcnow())
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
