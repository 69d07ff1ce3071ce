"""The shrinkage covariance of I-STAR, estimated anew while a run trains, as the configuration says."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from app.db.config import RunConfig
from app.db.models import Phase
from app.db.regularizer_options import Refresh
from isoscope.hidden_states import hidden_states_of, looking_at
from isoscope.layer_measures import empty_moments
from isotropy.regularizers.istar import IStar
from workers.finetune.progress import Progress
from workers.finetune.rows import Rows, draw, rows_at_once
from workers.finetune.view import View


def draw_rows(lengths: NDArray[np.int64], view: View, config: RunConfig, number: int) -> NDArray[np.int64]:
    """Return the rows, of these ``lengths`` in tokens, of the pass of this number: one of them at least."""
    most, seed = config.shrinkage_points // len(view.layers), (config.seed, number)
    if view.pooling is None:
        return draw(lengths, most, seed)
    return draw(lengths, int(lengths.sum()), seed, most=max(most, 1))


class ShrinkageCallback(TrainerCallback):
    """Gives the regularizer the covariance of many training points as the model sees them now.

    The points are those that ``view`` shows of rows drawn from the whole training set by the run's seed, anew for each
    pass, up to ``config.shrinkage_points`` of them; only these rows are run through the model. Padding comes on top
    where the configuration includes it. The training's random state is not touched.

    For a moving average there is one pass, at the start. Each step then mixes in the covariance of its own points, the
    mean over its batches where several are accumulated, for the steps that follow.
    """

    def __init__(
        self, regularizer: IStar, view: View, model: PreTrainedModel, rows: Rows, config: RunConfig, progress: Progress
    ) -> None:
        self.regularizer = regularizer
        self.view = view
        self.model = model
        self.rows = rows
        self.config = config
        self.progress = progress
        self._sum: Tensor | None = None
        self._batches = 0

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Estimate the covariance if it is due; else that of an earlier step or of the checkpoint stays."""
        number = self._pass_due(state)
        if number is not None:
            self._estimate(number)
            self.progress.enter(Phase.TRAINING, total=state.max_steps, done=state.global_step)

    def on_substep_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Keep the covariance of a batch of which a step has several."""
        self._keep_own()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Mix the step's own covariance into a moving average."""
        self._keep_own()
        if self._sum is not None:
            S, momentum = self.regularizer.shrinkage_covariance, self.config.shrinkage_momentum
            self.regularizer.set_shrinkage(momentum * S + (1 - momentum) * self._sum / self._batches)
            self._sum, self._batches = None, 0

    def _keep_own(self) -> None:
        own = self.regularizer.last_covariance
        if self.config.shrinkage_refresh is Refresh.AVERAGE and own is not None:
            self._sum = own if self._sum is None else self._sum + own
            self._batches += 1

    def _pass_due(self, state: TrainerState) -> int | None:
        """Return the number of the pass that the next step begins with, by which its rows are drawn, if any."""
        match self.config.shrinkage_refresh:
            case Refresh.EPOCH:
                epoch = float(state.epoch)
                return int(epoch) if epoch.is_integer() else None
            case Refresh.STEPS:
                number, since = divmod(state.global_step, self.config.shrinkage_every)
                return number if since == 0 else None
            case Refresh.AVERAGE:
                return 0 if state.global_step == 0 else None

    def _estimate(self, number: int) -> None:
        drawn, n_layers = draw_rows(self.rows.tokens, self.view, self.config, number), len(self.view.layers)
        size = self.config.batch_size
        if not self.view.include_padding:
            drawn, size = self.rows.longest_first(drawn), rows_at_once(self.config)

        self.progress.enter(Phase.SHRINKAGE, total=int(self.rows.tokens[drawn].sum()) * n_layers)
        moments = empty_moments(self.model)
        done = 0
        with looking_at(self.model):
            for batch in self.rows.batches(drawn, size, self.model.device):
                mask = batch["attention_mask"]
                states = hidden_states_of(self.model(**batch, output_hidden_states=True))
                moments.update(self.view.points(states, self.view.mask(mask)).flatten(0, 1))
                done += int(mask.sum()) * n_layers
                self.progress.advance(done)
        self.regularizer.set_shrinkage(moments.covariance())
