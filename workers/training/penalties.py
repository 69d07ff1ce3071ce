"""Penalties that a run adds to its task's loss, the points that each penalizes, and the shrinkage covariance."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.utils.generic import ModelOutput

from app.db.config import RunConfig
from app.db.models import Phase, Pooling
from app.db.options.regularization import Refresh
from app.db.options.training import Precision
from isoscope.core.task import TaskKind
from isoscope.hidden_states import depth, empty_moments, evaluation_mode, hidden_states_of
from isotropy.catalog import REGULARIZERS, Layers, Regularizer, TokenPooling
from isotropy.points import draw_tokens
from isotropy.regularizers.istar import IStar
from workers.models import pool, sentence_pooling
from workers.training.inference import TokenizedRows, draw_row_indices, inference_batch_size
from workers.training.progress import Progress


@dataclass(frozen=True)
class PointSelector:
    """Selects a penalty's points among hidden states: from some layers, all tokens or one vector of each text."""

    layers: Sequence[int]
    """Numbers from 1; the embedding layer, 0, is never selected."""
    pooling: Pooling | None
    """None for every token."""
    include_padding: bool = False
    """Whether padding counts as tokens; it never enters a pooled vector."""

    def mask(self, attention_mask: Tensor, draw: Callable[[Tensor], Tensor] = lambda mask: mask) -> Tensor:
        """Return the mask [batch, tokens] of selected tokens; ``draw`` picks some of them, except to pool vectors."""
        if self.pooling is not None:
            return attention_mask
        return draw(torch.ones_like(attention_mask) if self.include_padding else attention_mask)

    def points(
        self, hidden_states: Sequence[Tensor], mask: Tensor, *, drop_unselected: bool
    ) -> tuple[list[Tensor], Tensor | None]:
        """Return the points [n, d] of each selected layer of 1 + L hidden states [batch, tokens, d], differentiably.

        With ``drop_unselected``, tokens outside the mask are left out. Without, all are returned with a mask [n] of the
        points among them, because counting the points would wait for the GPU. The mask is None if all are points.
        """
        layers = [hidden_states[layer] for layer in self.layers]
        if self.pooling is not None:
            return [pool(layer, mask, self.pooling) for layer in layers], None
        clouds, is_point = [layer.flatten(0, 1) for layer in layers], mask.flatten().bool()
        if not drop_unselected:
            return clouds, is_point
        if is_point.all():
            return clouds, None
        positions = is_point.nonzero().squeeze(1)
        return [cloud.index_select(0, positions) for cloud in clouds], None

    def labels(self, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the label [n] of each point, from the label [batch] of each text."""
        return labels if self.pooling is not None else labels.repeat_interleave(mask.sum(dim=1))


def make_selector(
    layers: Sequence[int] | Layers, token_pooling: TokenPooling, config: RunConfig, model: PreTrainedModel
) -> PointSelector:
    if layers is Layers.ALL:
        layers = range(1, depth(model) + 1)
    elif layers is Layers.LAST:
        layers = [depth(model)]
    pooling = Pooling.MEAN if token_pooling is TokenPooling.MEAN else None
    if token_pooling is TokenPooling.SENTENCE:
        pooling = sentence_pooling(model)
    return PointSelector(layers, pooling, config.include_padding)


class Penalties(nn.Module):
    """The sum of a run's penalties; its state is the shrinkage covariance of I-STAR."""

    def __init__(self, config: RunConfig, model: PreTrainedModel) -> None:
        super().__init__()
        self.config = config
        self.regularizers = nn.ModuleDict()
        self.selectors: dict[Regularizer, PointSelector] = {}
        for name, lam in config.penalty_weights.items():
            entry = REGULARIZERS[name]
            settings = {argument: getattr(config, option) for option, argument in entry.options.items() if argument}
            if entry.default_states is not None:
                default_layers, default_points = entry.default_states
                layers, points = config.layers or default_layers, config.points or default_points
                self.selectors[name] = make_selector(layers, points, config, model)
                settings["across_processes"] = config.processes > 1
            if name is Regularizer.ISTAR and config.precision is not Precision.FP32:
                settings["product_dtype"] = torch.bfloat16
            self.regularizers[name] = resolve_name(entry.make)(lam, **settings)
        # The method, not the module: a submodule would add the model's weights to this module's state.
        self._get_embeddings = model.get_input_embeddings
        self._by_class = config.entropy_by_label and config.task is TaskKind.CLASSIFICATION

    @property
    def shrinking_istar(self) -> IStar | None:
        """Return I-STAR if it needs a shrinkage covariance before the first step, else None."""
        istar = dict(self.regularizers.items()).get(Regularizer.ISTAR)
        return istar if isinstance(istar, IStar) and istar.zeta > 0 else None

    def forward(self, outputs: ModelOutput, batch: Mapping[str, Tensor], step: int) -> Tensor:
        """Return the penalty of one batch, 0-d, in float32 even if the model uses lower precision.

        ``outputs`` must have hidden states if ``selectors`` is not empty. ``batch`` has ``attention_mask``
        [batch, tokens] and ``labels`` [batch]. ``step`` and the run's seed determine which tokens are drawn. Raises
        ValueError if a regularizer has no value on these points.
        """
        penalties = [self._penalty(Regularizer(name), outputs, batch, step) for name in self.regularizers]
        return torch.stack(penalties).sum()

    def _penalty(self, name: Regularizer, outputs: ModelOutput, batch: Mapping[str, Tensor], step: int) -> Tensor:
        regularizer: Callable[..., Tensor] = self.regularizers[name]
        if name not in self.selectors:
            return regularizer(self._get_embeddings().weight)
        selector = self.selectors[name]
        mask = selector.mask(batch["attention_mask"], lambda candidates: self._draw_tokens(candidates, step))
        entry = REGULARIZERS[name]
        drop_unselected = not entry.takes_mask or mask.device.type == "cpu" or self.config.token_fraction < 1
        layers, is_point = selector.points(hidden_states_of(outputs), mask, drop_unselected=drop_unselected)
        # Regularizers that take no mask or labels have no argument for None.
        optional_mask = [] if is_point is None else [is_point]
        match entry.layers:
            case "as one cloud":
                return regularizer(torch.cat(layers), *(layer_mask.repeat(len(layers)) for layer_mask in optional_mask))
            case "as a list":
                return regularizer(layers)
            case "one by one" if entry.classes:
                optional_labels = [selector.labels(batch["labels"], mask)] if self._by_class else []
                return torch.stack([regularizer(layer, *optional_labels) for layer in layers]).mean()
            case "one by one":
                return torch.stack([regularizer(layer, *optional_mask) for layer in layers]).mean()

    def _draw_tokens(self, mask: Tensor, step: int) -> Tensor:
        # Seed and step determine the draw, not the training's random state, so that a resumed run draws the same
        # tokens. Both are mixed into one number, because the generator keeps only 32 bits of a seed.
        mixed_seed = np.random.SeedSequence((self.config.seed, step)).generate_state(1)
        return draw_tokens(mask, self.config.token_fraction, torch.Generator().manual_seed(int(mixed_seed[0])))


def make_penalties(config: RunConfig, model: PreTrainedModel) -> Penalties | None:
    """Return the run's penalties; None if it has none."""
    return Penalties(config, model) if config.penalty_weights else None


def describe_constant_penalty(logged_penalties: Sequence[float]) -> str | None:
    """Return a note for the run page if there are two or more logged penalties and all are equal, else None."""
    if len(logged_penalties) < 2 or len(set(logged_penalties)) > 1:
        return None
    return (
        f"The penalty was {logged_penalties[0]:g} in all {len(logged_penalties)} rows that were logged, so it had no "
        "gradient and the run was trained as if without it. A batch has too few points or bars. Choose a larger batch "
        "size, every token instead of one vector per text, or all bars of the persistent entropy."
    )


def draw_shrinkage_rows(
    lengths: NDArray[np.int64], selector: PointSelector, config: RunConfig, pass_number: int
) -> NDArray[np.int64]:
    """Draw rows with at most ``config.shrinkage_points`` points in all layers together, but at least one row."""
    max_points, seed = config.shrinkage_points // len(selector.layers), (config.seed, pass_number)
    if selector.pooling is None:
        return draw_row_indices(lengths, max_points, seed)
    return draw_row_indices(lengths, int(lengths.sum()), seed, max_rows=max(max_points, 1))


@dataclass(eq=False)
class ShrinkageCallback(TrainerCallback):
    """Gives I-STAR the shrinkage covariance: that of many training points under the current model.

    Each pass draws rows of the training set by the run's seed and runs them through the model. ``selector`` selects up
    to ``config.shrinkage_points`` points from them, plus padding if the configuration includes it. The random state of
    training does not change.

    With ``Refresh.AVERAGE`` there is one pass, before the first step. After each step, the covariance of its points,
    averaged over accumulated batches, is mixed in for the steps that follow.
    """

    regularizer: IStar
    selector: PointSelector
    model: PreTrainedModel
    rows: TokenizedRows
    config: RunConfig
    progress: Progress
    _covariance_sum: Tensor | None = field(default=None, init=False)
    _batches_summed: int = field(default=0, init=False)

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Estimate the covariance anew if a pass is due before this step."""
        match self.config.shrinkage_refresh:
            case Refresh.EPOCH:
                pass_number, since_pass = divmod(float(state.epoch), 1)
            case Refresh.STEPS:
                pass_number, since_pass = divmod(state.global_step, self.config.shrinkage_every)
            case Refresh.AVERAGE:
                pass_number, since_pass = 0, state.global_step
        if since_pass == 0:
            self._estimate(int(pass_number))
            self.progress.enter(Phase.TRAINING, total=state.max_steps, done=state.global_step)

    def on_substep_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._accumulate_covariance()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._accumulate_covariance()
        if self._covariance_sum is not None:
            S, momentum = self.regularizer.shrinkage_covariance, self.config.shrinkage_momentum
            # Set without set_shrinkage(), which waits for the device.
            self.regularizer.shrinkage_covariance = (
                momentum * S + (1 - momentum) * self._covariance_sum / self._batches_summed
            )
            self._covariance_sum, self._batches_summed = None, 0

    def _accumulate_covariance(self) -> None:
        covariance = self.regularizer.last_covariance
        if self.config.shrinkage_refresh is Refresh.AVERAGE and covariance is not None:
            self._covariance_sum = covariance if self._covariance_sum is None else self._covariance_sum + covariance
            self._batches_summed += 1

    def _estimate(self, pass_number: int) -> None:
        n_layers = len(self.selector.layers)
        row_indices = draw_shrinkage_rows(self.rows.token_counts, self.selector, self.config, pass_number)
        # Included padding must be as in training, so then batches are as large and as mixed in length as there.
        batch_size = self.config.batch_size
        if not self.selector.include_padding:
            row_indices, batch_size = self.rows.longest_first(row_indices), inference_batch_size(self.config)
        self.progress.enter(Phase.SHRINKAGE, total=int(self.rows.token_counts[row_indices].sum()) * n_layers)
        moments = empty_moments(self.model)
        done = 0
        with evaluation_mode(self.model):
            for batch in self.rows.batches(row_indices, batch_size, self.model.device):
                mask = batch["attention_mask"]
                states = hidden_states_of(self.model(**batch, output_hidden_states=True))
                layers, _ = self.selector.points(states, self.selector.mask(mask), drop_unselected=True)
                for layer in layers:
                    moments.update(layer)
                done += int(mask.sum()) * n_layers
                self.progress.advance(done)
        self.regularizer.set_shrinkage(moments.covariance())
