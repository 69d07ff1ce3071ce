"""What a run does when memory runs out while it trains: it goes on with a smaller batch, once, and says so."""

from app.db.config import RunConfig
from isotropy.catalog import REGULARIZERS


class MemoryRanOutError(MemoryError):
    """Memory, of the machine or of its GPU, was not enough to train or to evaluate; to load the model it was."""


def smaller(config: RunConfig) -> RunConfig | None:
    """Return the configuration with half the rows a batch and twice the batches a step; None for one row.

    A batch of an odd number of rows is divided by more than two: a step has the same rows as before in any case, so
    that a run goes on from its checkpoint.
    """
    rows = config.batch_size
    parts = next((parts for parts in range(2, rows + 1) if rows % parts == 0), None)
    if parts is None:
        return None
    return config.model_copy(update={"batch_size": rows // parts, "accumulation": config.accumulation * parts})


def note(before: RunConfig, after: RunConfig, step: int) -> str:
    """Return the sentence that tells of it; training goes on behind ``step``."""
    rows, fewer = before.batch_size * before.processes, after.batch_size * after.processes
    told = (
        f"Memory ran out with {rows} rows a batch. From step {step + 1} on a batch has {fewer}, and "
        f"{after.accumulation} batches make a step instead of {before.accumulation}: as many rows a step as before."
    )
    if any(REGULARIZERS[one].sees for one in after.weights):
        told += f" But the penalty is one of {fewer} rows instead of {rows} since then, of which it has another value."
    return told
