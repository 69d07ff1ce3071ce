"""What a sweep would take, told from a dry run of it."""

import json
import math
from dataclasses import dataclass

from app.db.config import OPTIONS, RunConfig
from app.db.models import DryRun
from app.db.options.measuring import HELD_OUT_PART, LOOKS_PER_RUN, Selection
from app.db.regularizer_options import Refresh
from app.services.sweeps import SweepPlan

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
    kinds = dry_run.results["kinds"]
    dearest = max(range(len(kinds)), key=lambda place: kinds[place]["seconds_per_step"])
    durations: dict[str, list[float]] = {"mean": [], "fastest": [], "slowest": []}
    steps, untimed = 0, set()
    for run in plan.runs:
        kind = kind_of(run)
        if kind not in timed:
            untimed.add(kind)
        times = kinds[timed.get(kind, dearest)]
        of_run = _epoch_steps(plan, run, times) * run.epochs if run.epochs else run.max_steps or 0
        steps += of_run
        for which, of_runs in durations.items():
            of_runs.append(_seconds(plan, run, of_run, times | times.get(which, {})))
    weights = max(kind["parameters"] for kind in kinds) * WEIGHT_BYTES
    return Estimate(
        seconds=sum(durations["mean"]),
        low_seconds=sum(durations["fastest"]),
        high_seconds=sum(durations["slowest"]),
        longest_seconds=max(durations["mean"]),
        longest_low_seconds=max(durations["fastest"]),
        longest_high_seconds=max(durations["slowest"]),
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


def _seconds(plan: SweepPlan, run: RunConfig, steps: int, kind: dict[str, float]) -> float:
    """The beginning, steps, passes of the shrinkage covariance, looks at the layers, and the final measuring."""
    inputs = _inputs(plan, run, kind)
    rows = _passes(run, steps, _epoch_steps(plan, run, kind)) * min(kind["shrinkage_rows"], inputs)
    if run.evaluation_zeta > 0:
        rows += min(kind["reference_rows"], inputs)
    in_training = steps * kind["seconds_per_step"] + _looks(run, steps, kind) * kind["seconds_per_look"]
    return kind["seconds_to_load"] + in_training + rows * kind["seconds_per_row"] + _measuring(plan, run, kind)


def _measuring(plan: SweepPlan, run: RunConfig, kind: dict[str, float]) -> float:
    """Measures of the trained model on the validation rows, and its score on the test rows where there are any."""
    measured = _rows(run.validation_rows, plan.dataset.n_validation) * kind["inputs_per_row"]
    tested = (plan.dataset.n_test or 0) * kind["inputs_per_row"]
    of_pairs = kind["seconds_of_pairs"] * (min(measured, kind["most_pair_rows"]) / kind["pair_rows"]) ** 2
    by_row = measured * kind["seconds_per_measured_row"] + tested * kind["seconds_per_test_row"]
    return by_row + kind["seconds_per_measuring"] + of_pairs


def _rows(wanted: int | None, there: int | None) -> int:
    return min(wanted or there or 0, there or 0)


def _inputs(plan: SweepPlan, run: RunConfig, kind: dict[str, float]) -> float:
    """What is trained on: rows of the file, or windows, several of a row; without those held out to choose by."""
    rows = _rows(run.train_rows, plan.dataset.n_train)
    if run.selects and run.selection is Selection.HELD_OUT:
        rows -= math.ceil(rows / HELD_OUT_PART)
    return rows * kind["inputs_per_row"]


def _epoch_steps(plan: SweepPlan, run: RunConfig, kind: dict[str, float]) -> int:
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


def _looks(run: RunConfig, steps: int, kind: dict[str, float]) -> int:
    """Looks at the layers: before the first step, every so many, and after the last."""
    every = run.probe_every or max(1, round(max(steps / LOOKS_PER_RUN, kind["least_steps_apart"])))
    return 1 + math.ceil(steps / every)
