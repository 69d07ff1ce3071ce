"""The shrinkage covariance of I-STAR, estimated anew at the start of every epoch."""

from typing import Any

from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from app.db.config import RunConfig
from app.db.models import Phase
from isotropy.points import union_of_layers
from isotropy.regularizers.istar import IStar
from workers.finetune.layers import empty_moments, rows_at_once
from workers.finetune.progress import Progress
from workers.finetune.rows import Rows
from workers.hidden_states import depth, hidden_states_of, looking_at


class ShrinkageCallback(TrainerCallback):
    """Gives the regularizer the covariance of many training points as the model sees them now.

    A point is a token of a chosen layer. Up to ``config.shrinkage_points`` of them are taken: all tokens of rows drawn
    from the whole training set by the run's seed and the epoch, so that only these rows are run through the model.
    Padding comes on top where the configuration includes it. The training's random state is not touched.
    """

    def __init__(
        self, regularizer: IStar, model: PreTrainedModel, rows: Rows, config: RunConfig, progress: Progress
    ) -> None:
        self.regularizer = regularizer
        self.model = model
        self.rows = rows
        self.config = config
        self.progress = progress

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Estimate the covariance, unless the epoch goes on in its middle: then its own came with the checkpoint."""
        epoch = float(state.epoch)
        if not epoch.is_integer():
            return
        layers = self.config.layers if isinstance(self.config.layers, list) else None
        n_layers = len(layers or range(depth(self.model)))
        drawn = self.rows.draw(self.config.shrinkage_points // n_layers, (self.config.seed, int(epoch)))
        size = self.config.batch_size
        if not self.config.include_padding:
            drawn, size = self.rows.longest_first(drawn), rows_at_once(self.config)

        self.progress.enter(Phase.SHRINKAGE, total=int(self.rows.tokens[drawn].sum()) * n_layers)
        moments = empty_moments(self.model)
        done = 0
        with looking_at(self.model):
            for batch in self.rows.batches(drawn, size, self.model.device):
                mask = batch["attention_mask"]
                states = hidden_states_of(self.model(**batch, output_hidden_states=True))
                moments.update(union_of_layers(states, mask, layers, include_padding=self.config.include_padding))
                done += int(mask.sum()) * n_layers
                self.progress.advance(done)
        self.regularizer.set_shrinkage(moments.covariance())
