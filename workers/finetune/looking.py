"""Rows run through a model that is only looked at, batch by batch, while its run's row tells how far it is."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from app.db.config import RunConfig
from app.db.models import Phase
from workers.finetune.progress import Progress
from workers.finetune.rows import Rows, rows_at_once


class Looked(NamedTuple):
    """A batch, and what the model made of it."""

    batch: Mapping[str, Tensor]
    outputs: ModelOutput
    indices: NDArray[np.int64]
    """Places of its rows among all, [batch]."""

    @property
    def loss(self) -> float:
        """The task's, summed over the rows of the batch; not finite where the model has diverged."""
        return float(self.outputs["loss"]) * len(self.indices)


def forward(
    model: PreTrainedModel,
    rows: Rows,
    order: NDArray[np.int64],
    config: RunConfig,
    progress: Progress,
    *,
    hidden_states: bool = True,
) -> Iterator[Looked]:
    """Run rows through the model in ``order``; to be called within ``looking_at``."""
    progress.enter(Phase.EVALUATING, total=len(order))
    done = 0
    for batch in rows.batches(order, rows_at_once(config), model.device):
        indices = order[done : done + len(batch["attention_mask"])]
        yield Looked(batch, model(**batch, output_hidden_states=hidden_states), indices)
        done += len(indices)
        progress.advance(done)
