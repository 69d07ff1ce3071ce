"""What pages and figures read of a stored configuration, whoever wrote it: this Isoscope or a user's own script."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from app.db.models import Experiment, Run
from app.db.options.regularization import Weights
from app.db.regularizer_options import Bars, Regularizer, added
from isoscope.core.task import Metric, TaskKind


class Stated(BaseModel):
    """What was said of an experiment or a run. What is None was not, and no default stands in for it."""

    model_config = ConfigDict(frozen=True)

    logged: bool = False
    """By a script, of which nothing else is known."""
    task: TaskKind
    metric: Metric
    fixed_regularizers: Weights = Field(default_factory=dict)
    regularizer: Regularizer = Regularizer.NONE
    lam: float = 0.0
    zeta: float | None = None
    entropy_bars: Bars | None = None
    entropy_cluster_weight: float | None = None

    @classmethod
    def of(cls, row: Experiment | Run) -> Self:
        """Read the configuration of a row."""
        return cls.model_validate(row.config)

    @property
    def weights(self) -> dict[Regularizer, float]:
        """Lambda of every regularizer that the run adds to its loss; empty for plain training."""
        return added(self.regularizer, self.lam, self.fixed_regularizers)
