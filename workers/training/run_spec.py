"""The specification of a run, read from its row, and the smaller batches that it trains with after memory ran out."""

from typing import NamedTuple

from app.db.config import RunConfig
from app.db.models import Dataset, Run
from isotropy.catalog import REGULARIZERS


class RunSpec(NamedTuple):
    """The specification of a run to train."""

    config: RunConfig
    """The configuration to train with, which has smaller batches than requested if memory ran out before."""
    requested_batch_size: int
    dataset: Dataset
    experiment_name: str
    revision: str | None
    """The model's revision on the Hub that an earlier attempt has used; None if there was none."""


def make_run_spec(run: Run) -> RunSpec:
    """Return the spec of a run, with the batches and the model's revision of the earlier attempt, if any."""
    environment = run.environment or {}
    requested = run.launched_config
    used_batches = environment.get("batches", {})
    changed_fields = {name: used_batches[name] for name in ("batch_size", "accumulation") if name in used_batches}
    config = requested.model_copy(update=changed_fields)
    revision = environment.get("model", {}).get("revision")
    return RunSpec(config, requested.batch_size, run.experiment.dataset, run.experiment.name, revision)


def batch_plan(config: RunConfig) -> dict[str, int]:
    """Return how the rows of an optimizer step are divided, as stored in the run's environment."""
    return {
        "batch_size": config.batch_size,
        "accumulation": config.accumulation,
        "processes": config.processes,
        "rows_per_step": config.batch_size * config.accumulation * config.processes,
    }


class OutOfMemoryError(MemoryError):
    """The model fit into the memory of the machine or its GPU, but training or evaluating it did not."""


def with_smaller_batch(config: RunConfig) -> RunConfig | None:
    """Return the config with the next smaller batch size that keeps the rows per step; None if a batch has one row."""
    rows = config.batch_size
    divisor = next((divisor for divisor in range(2, rows + 1) if rows % divisor == 0), None)
    if divisor is None:
        return None
    return config.model_copy(update={"batch_size": rows // divisor, "accumulation": config.accumulation * divisor})


def describe_smaller_batch(old: RunConfig, new: RunConfig, last_step: int) -> str:
    """Return a note for the run page; ``last_step`` is the last step with the old batches."""
    old_rows, new_rows = old.batch_size * old.processes, new.batch_size * new.processes
    note = (
        f"Memory ran out with {old_rows} rows per batch. From step {last_step + 1} on, each batch has {new_rows} rows, "
        f"and each step averages {new.accumulation} batches instead of {old.accumulation}, so that it still uses the "
        "same number of rows."
    )
    if any(REGULARIZERS[regularizer].default_states for regularizer in new.penalty_weights):
        note += (
            f" From then on, each penalty is computed on {new_rows} rows instead of {old_rows}, which changes its "
            "value."
        )
    return note
