"""The specification of a run from its row, and the smaller batch it gets after memory ran out once."""

from typing import NamedTuple

from app.db.config import RunConfig
from app.db.models import Dataset, Run
from isotropy.catalog import REGULARIZERS


class RunSpec(NamedTuple):
    """A run to train."""

    config: RunConfig
    """The configuration to train with: with smaller batches than requested if memory ran out before."""
    requested_batch_size: int
    dataset: Dataset
    experiment: str
    revision: str | None
    """The model's revision on the Hub, if an interrupted run has looked it up before."""


def make_run_spec(run: Run) -> RunSpec:
    environment = run.environment or {}
    requested = run.launched_config
    used_batches = {name: environment.get("batches", {}).get(name) for name in ("batch_size", "accumulation")}
    config = requested.model_copy(update={name: value for name, value in used_batches.items() if value is not None})
    revision = environment.get("model", {}).get("revision")
    return RunSpec(config, requested.batch_size, run.experiment.dataset, run.experiment.name, revision)


def batch_plan(config: RunConfig) -> dict[str, int]:
    """Return the parts of an optimizer step: batch size, accumulation, processes, and rows in total."""
    return {
        "batch_size": config.batch_size,
        "accumulation": config.accumulation,
        "processes": config.processes,
        "rows_per_step": config.batch_size * config.accumulation * config.processes,
    }


class OutOfMemoryError(MemoryError):
    """The memory of the machine or its GPU held the model, but ran out in training or evaluation."""


def with_smaller_batch(config: RunConfig) -> RunConfig | None:
    """Return the config with smaller batches but the same number of rows per step; None if a batch has one row."""
    rows = config.batch_size
    divisor = next((divisor for divisor in range(2, rows + 1) if rows % divisor == 0), None)
    if divisor is None:
        return None
    return config.model_copy(update={"batch_size": rows // divisor, "accumulation": config.accumulation * divisor})


def describe_smaller_batch(before: RunConfig, after: RunConfig, step: int) -> str:
    rows_before, rows_after = before.batch_size * before.processes, after.batch_size * after.processes
    sentence = (
        f"Memory ran out with {rows_before} rows per batch. From step {step + 1} on, each batch has {rows_after} rows, "
        f"and each step averages {after.accumulation} batches instead of {before.accumulation}, so that it still uses "
        "the same number of rows."
    )
    if any(REGULARIZERS[regularizer].default_states for regularizer in after.weights):
        sentence += (
            f" From then on, each penalty is computed on {rows_after} rows instead of {rows_before}, which changes its "
            "value."
        )
    return sentence
