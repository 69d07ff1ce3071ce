"""What a run's row asks for, as it is worked on."""

from typing import NamedTuple

from app.db.config import RunConfig
from app.db.models import Dataset, Run


class Order(NamedTuple):
    """A run that is to be trained."""

    config: RunConfig
    """As it is trained: where memory ran out before, with fewer rows a batch than were asked for."""
    asked_batch_size: int
    dataset: Dataset
    experiment: str
    """Its name."""
    revision: str | None
    """Of the model on the Hub, where an interrupted run has found it out already."""

    @property
    def shrunk(self) -> bool:
        """Whether memory ran out before."""
        return self.config.batch_size != self.asked_batch_size


def order_of(run: Run) -> Order:
    """Read a run's row."""
    environment = run.environment or {}
    asked = run.launched_config
    used = {name: environment.get("batches", {}).get(name) for name in ("batch_size", "accumulation")}
    config = asked.model_copy(update={name: value for name, value in used.items() if value is not None})
    revision = environment.get("model", {}).get("revision")
    return Order(config, asked.batch_size, run.experiment.dataset, run.experiment.name, revision)


def batches_of(config: RunConfig) -> dict[str, int]:
    """Return how rows become steps, for the row: the batch and the accumulation that were really used."""
    return {
        "batch_size": config.batch_size,
        "accumulation": config.accumulation,
        "processes": config.processes,
        "rows_per_step": config.batch_size * config.accumulation * config.processes,
    }
