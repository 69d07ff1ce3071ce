"""Preview of a sweep: tokenized rows, steps, estimated time, and disk space."""

import math
import socket
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist, fmean, median, variance

from pydantic import BaseModel
from sqlalchemy import select

from app.context import Context
from app.core.evidence import MIN_SEEDS, look_level, t_quantile
from app.core.training_cost import ModelSize, expected_longest, step_seconds
from app.db.config import RunConfig
from app.db.models import DatasetOrigin, Experiment, Run, RunStatus
from app.db.options.measuring import (
    HELD_OUT_PART,
    MEASURING_TOKENS_PER_DIMENSION,
    PROBE_TOKENS_PER_DIMENSION,
    SelectionRows,
    default_probe_every,
)
from app.db.options.regularization import Refresh
from app.db.reported_config import AnyRunConfig
from app.sandbox import read_in_sandbox
from app.training.models import find_model_folder, read_model_size
from app.training.queue_status import list_workers
from app.training.sweeps import SweepPlan
from isoscope.core.errors import InvalidError, IsoscopeError
from isoscope.core.formatting import number
from isoscope.core.task import TaskKind
from isoscope.files.token_sample import TokenizedRow, TokenLengths, TokenSample, sample_tokens

FORWARD_SHARE = 1 / 3
"""Fraction of a training step's time that a pass without gradients takes."""
START_SECONDS = 8.0
"""Seconds to start a process, load the model and measure the trained one."""
WEIGHT_BYTES = 4
CHECKPOINT_WEIGHTS = 3
"""Numbers that a checkpoint stores per weight: the weight and two moments of Adam."""
CHECKPOINTS_AT_ONCE = 2
"""A checkpoint is deleted when the next one is complete."""
MAX_EARLIER_RUNS = 100
MAX_CACHED_SAMPLES = 32
VERDICT_PROBABILITY = 0.6


class TokenPreview(BaseModel):
    """Eight tokenized rows, and the number of truncated rows in a sample."""

    rows: list[TokenizedRow]
    n_sampled: int
    n_cut: int
    longest: int
    max_length: int


class CostEstimate(BaseModel):
    """Time of a sweep on the fastest worker, one run at a time, without early stopping, checkpoints and downloads."""

    seconds: float
    longest_seconds: float
    device: str
    """Name of the device, such as this machine's CPU."""
    worker: str
    from_earlier_runs: bool
    """Whether it is based on earlier runs of the same models on this device, not on timed matrix products."""


class SweepPreview(BaseModel):
    """What a request would launch; nothing is launched."""

    runs: int
    words: str
    notes: list[str]
    steps: int
    estimate: CostEstimate | None
    no_estimate: str | None
    tokens: TokenPreview | None
    no_tokens: str | None
    passing_bytes: int | None
    """Size of a running run's checkpoints, which are deleted when it ends."""
    kept_bytes: int | None
    """Size of the models stored for download."""


class InputLengths:
    """Token counts of a sample of inputs: rows, or windows of long rows. ``model_limit`` is None if unknown."""

    def __init__(self, lengths: Sequence[TokenLengths], run: RunConfig, model_limit: int | None) -> None:
        self.limit = min(run.max_length, model_limit or run.max_length)
        self.n_rows = len(lengths)
        self.n_cut = sum(length.total > self.limit for length in lengths)
        self.tokens: list[int] = []
        for length in lengths:
            # A long context of a span task is cut into windows that overlap by the stride and repeat the question.
            context_room = self.limit - length.first - 1
            if length.total <= self.limit or run.task is not TaskKind.SPAN or context_room <= run.stride:
                self.tokens.append(min(length.total, self.limit))
            else:
                tokens_after_first = length.total - length.first - context_room
                n_windows = 1 + math.ceil(tokens_after_first / (context_room - run.stride))
                self.tokens += [self.limit] * n_windows
        self.mean = sum(self.tokens) / len(self.tokens)
        self.padded_lengths: dict[int, float] = {}
        """Expected tokens of a batch's longest row, by batch size."""


class RunCost:
    """Steps of a run. With known model and inputs, also their tokens and those of forward passes outside training."""

    def __init__(self, plan: SweepPlan, run: RunConfig, model: ModelSize | None, inputs: InputLengths | None) -> None:
        dataset = plan.dataset
        inputs_per_row = len(inputs.tokens) / inputs.n_rows if inputs else 1.0
        n_train, n_validation = dataset.n_train or 0, dataset.n_validation or 0
        rows = min(run.train_rows or n_train, n_train)
        if run.selects_during_training and run.selection is SelectionRows.HELD_OUT:
            rows -= math.ceil(rows / HELD_OUT_PART)
        rows_per_step = run.batch_size * run.accumulation * run.processes
        epoch_steps = max(1, math.ceil(rows * inputs_per_row / rows_per_step))
        self.steps = epoch_steps * run.epochs if run.epochs else run.max_steps or 0
        if inputs is None or model is None:
            return
        if run.batch_size not in inputs.padded_lengths:
            inputs.padded_lengths[run.batch_size] = expected_longest(inputs.tokens, run.batch_size)
        self.padded_length = inputs.padded_lengths[run.batch_size]
        self.step_tokens = rows_per_step * self.padded_length
        tokens_per_dimension = PROBE_TOKENS_PER_DIMENSION + MEASURING_TOKENS_PER_DIMENSION
        probe_tokens = tokens_per_dimension * model.width + max(inputs.tokens)
        probe_every = run.probe_every or default_probe_every(self.steps, probe_tokens, rows_per_step * inputs.mean)
        shrinkage_tokens = min(run.shrinkage_points / model.layers, rows * inputs_per_row * inputs.mean)
        n_refreshes = {
            Refresh.EPOCH: math.ceil(self.steps / epoch_steps),
            Refresh.STEPS: math.ceil(self.steps / run.shrinkage_every),
            Refresh.AVERAGE: 1,
        }[run.shrinkage_refresh]
        n_evaluated = min(run.validation_rows or n_validation, n_validation) + (dataset.n_test or 0)
        self.forward_tokens = (
            (1 + math.ceil(self.steps / probe_every)) * probe_tokens
            + (n_refreshes * shrinkage_tokens if run.uses_option("shrinkage_points") else 0)
            + (shrinkage_tokens if run.evaluation_zeta > 0 else 0)
            + n_evaluated * inputs_per_row * inputs.mean
        )

    def seconds(self, seconds_per_step: float) -> float:
        # The training steps that take as long as the forward passes.
        equivalent_steps = self.forward_tokens * FORWARD_SHARE / self.step_tokens
        return START_SECONDS + (self.steps + equivalent_steps) * seconds_per_step


def preview_sweep(context: Context, plan: SweepPlan) -> SweepPreview:
    folders = {name: find_model_folder(context.settings, name) for name in {run.model for run in plan.runs}}
    sizes = {name: read_model_size(folder) if folder else None for name, folder in folders.items()}
    samples, no_tokens = {}, None
    for name, folder in folders.items():
        try:
            samples[name] = _read_sample(context, plan, folder, name)
        except IsoscopeError as error:
            no_tokens = error.message
    inputs_by_key: dict[tuple[str, int, int], InputLengths] = {}
    for run in plan.runs:
        key, size = _input_key(run), sizes[run.model]
        if run.model in samples and key not in inputs_by_key:
            inputs_by_key[key] = InputLengths(samples[run.model].lengths, run, size.positions if size else None)
    costs = [RunCost(plan, run, sizes[run.model], inputs_by_key.get(_input_key(run))) for run in plan.runs]
    estimate, no_estimate = None, no_tokens
    if no_tokens is None:
        estimate, no_estimate = _estimate_cost(context, plan, costs, sizes)
    tokens, first_run = None, plan.runs[0]
    if first_run.model in samples:
        sample, inputs = samples[first_run.model], inputs_by_key[_input_key(first_run)]
        tokens = TokenPreview(
            rows=sample.rows,
            n_sampled=inputs.n_rows,
            n_cut=inputs.n_cut,
            longest=max(length.total for length in sample.lengths),
            max_length=inputs.limit,
        )
    known_sizes = [size.parameters for size in sizes.values() if size]
    model_bytes = WEIGHT_BYTES * max(known_sizes) if known_sizes else None
    return SweepPreview(
        runs=len(plan.runs),
        words=plan.product.describe(plan.product.total - len(plan.runs)),
        notes=[*plan.notes, *_describe_power(context, plan)],
        steps=sum(cost.steps for cost in costs),
        estimate=estimate,
        no_estimate=no_estimate,
        tokens=tokens,
        no_tokens=no_tokens,
        passing_bytes=None if model_bytes is None else model_bytes * CHECKPOINT_WEIGHTS * CHECKPOINTS_AT_ONCE,
        kept_bytes=None if model_bytes is None else model_bytes * sum(run.export for run in plan.runs),
    )


def _describe_power(context: Context, plan: SweepPlan) -> list[str]:
    """Say which difference between settings gets a verdict with ``VERDICT_PROBABILITY``; empty if it is unknown."""
    n_seeds = len({run.seed for run in plan.runs})
    n_compared = len({_without_seed(run) for run in plan.runs}) - 1
    if n_seeds < MIN_SEEDS or n_compared < 1:
        return []
    query = select(Run.experiment_id, Run.config, Run.performance).join(Run.experiment)
    query = query.where(Experiment.dataset_id == plan.dataset.id, Run.model.in_({run.model for run in plan.runs}))
    query = query.where(Run.status == RunStatus.FINISHED, Run.performance.is_not(None))
    scores: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    with context.sessions() as session:
        for experiment_id, config, performance in session.execute(
            query.order_by(Run.finished_at.desc()).limit(MAX_EARLIER_RUNS)
        ):
            if config.metric == plan.config.metric:
                scores[experiment_id, _without_seed(config)][config.seed] = performance or 0.0
    variances = [variance(seed_scores.values()) for seed_scores in scores.values() if len(seed_scores) > 1]
    if not any(variances):
        return []
    # With one comparison seeds are paired: n_seeds - 1 degrees of freedom. With several, two settings add up theirs.
    critical_value = t_quantile(look_level(1) / n_compared, min(n_compared, 2) * (n_seeds - 1))
    error = math.sqrt(2 * fmean(variances) / n_seeds)
    difference = number((critical_value + NormalDist().inv_cdf(VERDICT_PROBABILITY)) * error, 2)
    return [
        f"With {n_seeds} seeds a difference of {difference} gets a verdict in about {10 * VERDICT_PROBABILITY:.0f} "
        "of 10 sweeps like your last ones."
    ]


def _without_seed(run: AnyRunConfig) -> str:
    return repr(run.dump() | {"seed": None})


def _input_key(run: RunConfig) -> tuple[str, int, int]:
    return run.model, run.max_length, run.stride


_cached_samples: dict[tuple[object, ...], TokenSample] = {}


def _read_sample(context: Context, plan: SweepPlan, folder: Path | None, model: str) -> TokenSample:
    """Return tokenized train rows. Raise InvalidError if the rows or the tokenizer are not on this machine."""
    dataset = plan.dataset
    if dataset.origin is DatasetOrigin.HUB:
        raise InvalidError("The Hub's rows are fetched when the first run starts. The time is unknown until then.")
    tokenizer = folder and folder / "tokenizer.json"
    if tokenizer is None or not tokenizer.is_file():
        problem = "is not on this machine" if folder is None else "has no tokenizer.json"
        raise InvalidError(f"The model {model!r} {problem}, so its tokens and the time are unknown until a run starts.")
    texts, label = list(plan.config.text_columns), plan.config.label_column
    key = (dataset.train_sha256, str(dataset.quoting), str(tokenizer), tokenizer.stat().st_mtime_ns, *texts, label)
    if key not in _cached_samples:
        location = context.storage.local_path(str(dataset.train_sha256)), str(dataset.train_filename)
        quoting = dataset.quoting_of("train")
        sample = read_in_sandbox(context.settings, sample_tokens, tokenizer, *location, texts, label, quoting)
        while len(_cached_samples) >= MAX_CACHED_SAMPLES:
            del _cached_samples[next(iter(_cached_samples))]
        _cached_samples[key] = sample
    if not _cached_samples[key].lengths:
        raise InvalidError("The rows that were read have no text, so the time is unknown.")
    return _cached_samples[key]


def _estimate_cost(
    context: Context, plan: SweepPlan, costs: Sequence[RunCost], sizes: Mapping[str, ModelSize | None]
) -> tuple[CostEstimate | None, str | None]:
    """Return the estimate for the fastest worker, or None with the reason why there is none."""
    unsized_model = next((name for name, size in sizes.items() if size is None), None)
    if unsized_model is not None:
        return None, f"The size of the model {unsized_model!r} could not be read, so the time is unknown."
    workers = [(worker, worker.speed) for worker in list_workers(context) if worker.alive and worker.speed]
    if not workers:
        return None, "No worker is running, so the time is unknown."
    rates = _earlier_rates(context, {run.model for run in plan.runs})
    estimates = []
    for worker, speed in workers:
        seconds, uses_earlier_runs = [], []
        for run, cost in zip(plan.runs, costs, strict=True):
            # Prefer earlier runs with the same regularizers.
            earlier_rates = rates.get((run.model, str(run.precision), speed.device_name), ())
            same_rates = [
                rate for regularizers, rate in earlier_rates if regularizers == frozenset(run.penalty_weights)
            ]
            known_rates = same_rates or [rate for _, rate in earlier_rates]
            rate = median(known_rates) if known_rates else None
            size, seconds_per_step = sizes[run.model], None
            if rate:
                seconds_per_step = cost.step_tokens / rate
            elif size:
                seconds_per_step = step_seconds(size, speed, run.precision, cost.step_tokens, cost.padded_length)
            if seconds_per_step is not None:
                seconds.append(cost.seconds(seconds_per_step))
                uses_earlier_runs.append(rate is not None)
        if len(seconds) == len(plan.runs):
            machine = worker.slot.removesuffix(f"/{worker.device}")
            name = "CPU" if worker.device == "cpu" else speed.device_name
            is_local = machine == socket.gethostname()
            estimates.append(
                CostEstimate(
                    seconds=sum(seconds),
                    longest_seconds=max(seconds),
                    device=f"this machine’s {name}" if is_local else f"the {name} of {machine}",
                    worker=worker.slot,
                    from_earlier_runs=all(uses_earlier_runs),
                )
            )
    best = min(estimates, key=lambda estimate: estimate.seconds, default=None)
    return best, None if best else "No worker's device was timed in this precision, so the time is unknown."


Rates = Mapping[tuple[str, str, str], Sequence[tuple[frozenset[str], float]]]
"""By model, precision and device: regularizers and padded tokens per second of earlier runs."""


def _earlier_rates(context: Context, models: set[str]) -> Rates:
    query = select(Run.config, Run.environment).where(Run.model.in_(models), Run.status == RunStatus.FINISHED)
    rates = defaultdict(list)
    with context.sessions() as session:
        for config, environment in session.execute(query.order_by(Run.finished_at.desc()).limit(MAX_EARLIER_RUNS)):
            speed = (environment or {}).get("speed")
            if speed and isinstance(config, RunConfig):
                key = (config.model, str(config.precision), str(environment["device_name"]))
                rates[key].append(
                    (frozenset(config.penalty_weights), speed["tokens_per_step"] / speed["seconds_per_step"])
                )
    return rates
