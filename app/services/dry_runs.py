"""Dry runs: eight rows and a few steps of a sweep that is not launched yet, and what that tells of the whole."""

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError

from app.context import Context
from app.db.config import RunConfig
from app.db.models import DryRun, ResultStatus
from app.errors import ConflictError, NotFoundError
from app.queue import Job, JobKind
from app.services.results import repeat_failed
from app.services.sweeps import SweepPlan

KEPT = 50
"""Dry runs that are kept; the oldest go."""
MAX_KINDS = 12
"""Kinds of steps that are timed; a sweep of more is estimated by the dearest of these."""
WEIGHT_BYTES = 4
CHECKPOINT_WEIGHTS = 3
"""Numbers of a checkpoint for each weight: itself and the two moments of Adam."""
CHECKPOINTS_AT_ONCE = 2
"""The last one goes when the next one is whole."""

# What a run can differ in without a step of it taking longer: how many there are, and of which size.
OF_NO_COST = (
    "label_column", "lam", "seed", "epochs", "max_steps", "learning_rate", "warmup", "schedule", "weight_decay",
    "train_rows", "validation_rows", "metric", "shrinkage_every", "shrinkage_momentum", "probe_every",
    "evaluation_zeta", "checkpoint", "selection", "evaluate_every", "patience", "export", "regularizer", "beside",
)  # fmt: skip


class Estimate(NamedTuple):
    """What a sweep would take, by the steps that were timed: of the device that they were timed on, one run a time."""

    seconds: float
    longest_seconds: float
    """Of the run that takes longest."""
    steps: int
    """Of all runs together."""
    kept_bytes: int
    """Models that are kept for download."""
    passing_bytes: int
    """Checkpoints of the run that is trained; they go when it has ended."""
    kinds_untimed: int
    """Kinds of steps beyond ``MAX_KINDS``, which are taken to be as dear as the dearest timed."""


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


def request_dry_run(context: Context, plan: SweepPlan) -> DryRun:
    """Have eight rows and a few steps of every kind that a plan has tried, unless they were; failed ones again."""
    found = find_dry_run(context, plan)
    if found is None:
        _add(context, plan)
    elif found.status is ResultStatus.FAILED:
        repeat_failed(context, DryRun, Job(JobKind.DRY_RUN, found.id))
    if (asked := find_dry_run(context, plan)) is None:
        raise ConflictError("The data set or this dry run was deleted at the same moment; ask again.")
    return asked


def estimate(plan: SweepPlan, dry_run: DryRun) -> Estimate | None:
    """What the runs of a plan would take by a dry run of it; None until it has results."""
    if dry_run.results is None:
        return None
    timed = {_kind_of(RunConfig.model_validate(config)): place for place, config in enumerate(dry_run.configs)}
    kinds = dry_run.results["kinds"]
    dearest = max(range(len(kinds)), key=lambda place: kinds[place]["seconds_per_step"])
    durations, steps, untimed = [], 0, set()
    for run in plan.runs:
        kind = _kind_of(run)
        if kind not in timed:
            untimed.add(kind)
        of_run = _steps(plan, run)
        steps += of_run
        durations.append(_seconds(plan, run, of_run, kinds[timed.get(kind, dearest)]))
    weights = max(kind["parameters"] for kind in kinds) * WEIGHT_BYTES
    return Estimate(
        seconds=sum(durations),
        longest_seconds=max(durations),
        steps=steps,
        kept_bytes=weights * sum(run.export for run in plan.runs),
        passing_bytes=weights * CHECKPOINT_WEIGHTS * CHECKPOINTS_AT_ONCE,
        kinds_untimed=len(untimed),
    )


def _seconds(plan: SweepPlan, run: RunConfig, steps: int, kind: dict[str, float]) -> float:
    """Steps, the passes of the shrinkage covariance, and the evaluation with the probes as part of the steps."""
    rows = run.validation_rows or plan.dataset.n_validation or 0
    passes = max(1, run.epochs or 1) if kind["shrinkage_rows"] else 0
    looked_at = rows + passes * kind["shrinkage_rows"]
    return kind["seconds_to_load"] + steps * kind["seconds_per_step"] + looked_at * kind["seconds_per_row"]


def _steps(plan: SweepPlan, run: RunConfig) -> int:
    if run.max_steps is not None:
        return run.max_steps
    rows = min(run.train_rows or plan.dataset.n_train or 0, plan.dataset.n_train or 0)
    at_once = run.batch_size * run.accumulation * run.processes
    return -(-rows // at_once) * (run.epochs or 1)


def _kind_of(run: RunConfig) -> str:
    """What a run's step costs by: the same text is the same cost."""
    values = run.model_dump(mode="json", exclude=set(OF_NO_COST))
    if not run.weights:
        values |= {"zeta": None, "layers": None, "points": None}
    return json.dumps([values, sorted(run.weights)], sort_keys=True)


def _kinds(runs: Sequence[RunConfig]) -> list[RunConfig]:
    """The first run of each kind."""
    first: dict[str, RunConfig] = {}
    for run in runs:
        first.setdefault(_kind_of(run), run)
    return list(first.values())[:MAX_KINDS]


def _key_of(plan: SweepPlan) -> str:
    parts = [plan.dataset.id, *(_kind_of(run) for run in _kinds(plan.runs))]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _add(context: Context, plan: SweepPlan) -> None:
    configs = [run.model_dump(mode="json") for run in _kinds(plan.runs)]
    asked = DryRun(dataset_id=plan.dataset.id, key=_key_of(plan), configs=configs)
    newest = select(DryRun.id).order_by(DryRun.created_at.desc(), DryRun.id).limit(KEPT)
    try:
        with context.sessions.begin() as session:
            session.add(asked)
            session.flush()
            kept = list(session.scalars(newest))
            session.execute(delete(DryRun).where(DryRun.id.not_in(kept), DryRun.status != ResultStatus.QUEUED))
    except IntegrityError:
        return  # the same was asked for, or the data set deleted, at this moment: a look will tell
    context.queue.enqueue(Job(JobKind.DRY_RUN, asked.id))
