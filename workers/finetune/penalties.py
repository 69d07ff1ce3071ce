"""What a run adds to its task's loss: the penalty of each of its regularizers, on the points that each sees."""

from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from app.db.config import RunConfig
from app.db.regularizer_options import Regularizer
from isoscope.core.task import TaskKind
from isoscope.hidden_states import hidden_states_of
from isotropy.catalog import REGULARIZERS
from isotropy.points import draw_tokens
from isotropy.regularizers.istar import IStar
from workers.finetune.view import make_view


class Penalties(nn.Module):
    """The sum of the penalties of all regularizers of a run.

    Each sees its layers as its record says, and those that see tokens all see the same part of them. The state is what
    a checkpoint has to keep: the shrinkage covariance of I-STAR.
    """

    def __init__(self, config: RunConfig, model: PreTrainedModel) -> None:
        super().__init__()
        self.config = config
        self.regularizers = nn.ModuleDict({name: _make(name, lam, config) for name, lam in config.weights.items()})
        views = {name: make_view(name, config, model) for name in config.weights}
        self.views = {name: view for name, view in views.items() if view is not None}
        # The method, not the module, which would make the model's weights a part of this one's state.
        self._embeddings = model.get_input_embeddings
        self._by_label = config.entropy_by_label and config.task is TaskKind.CLASSIFICATION

    @property
    def shrunk(self) -> IStar | None:
        """I-STAR where it is shrunk, so that it needs a shrinkage covariance before the first step."""
        return next((one for one in self.regularizers.values() if isinstance(one, IStar) and one.zeta > 0), None)

    def forward(self, outputs: ModelOutput, batch: Mapping[str, Tensor], step: int) -> Tensor:
        """Return the penalty of one batch, 0-d, in float32 also where the model computes in less.

        Args:
            outputs: of the model, with its hidden states if there are ``views``.
            batch: what the model was given, ``attention_mask`` [batch, tokens] and ``labels`` [batch] among it.
            step: the training step, by which and the run's seed tokens are drawn.

        Raises:
            ValueError: a regularizer has no value on these points.

        """
        penalties = [self._penalty(Regularizer(name), outputs, batch, step) for name in self.regularizers]
        return torch.stack(penalties).sum()

    def _penalty(self, name: Regularizer, outputs: ModelOutput, batch: Mapping[str, Tensor], step: int) -> Tensor:
        regularizer: Callable[..., Tensor] = self.regularizers[name]
        if name not in self.views:
            return regularizer(self._embeddings().weight)
        view = self.views[name]
        mask = view.mask(batch["attention_mask"], lambda mask: self._drawn(mask, step))
        points = view.points(hidden_states_of(outputs), mask)
        penalty = REGULARIZERS[name]
        match penalty.layers:
            case "as one cloud":
                return regularizer(points.flatten(0, 1))
            case "as a list":
                return regularizer(points.unbind())
            case "one by one":
                labels = [view.labels(batch["labels"], mask)] if penalty.classes and self._by_label else []
                return torch.stack([regularizer(layer, *labels) for layer in points]).mean()

    def _drawn(self, mask: Tensor, step: int) -> Tensor:
        # By seed and step, apart from the training's random state: a run that is resumed draws what it would have.
        # The generator keeps 32 bits of a seed, which are mixed of both.
        mixed = np.random.SeedSequence((self.config.seed, step)).generate_state(1)
        return draw_tokens(mask, self.config.token_fraction, torch.Generator().manual_seed(int(mixed[0])))


def make_penalties(config: RunConfig, model: PreTrainedModel) -> Penalties | None:
    """Return the penalties of a run on ``model``; None for plain training, which then asks for no hidden states."""
    return Penalties(config, model) if config.weights else None


def note_of_silence(logged: Sequence[float]) -> str | None:
    """Return a sentence where the penalties that a run logged, two or more, are all equal; None where they are not."""
    if len(logged) < 2 or len(set(logged)) > 1:
        return None
    return (
        f"The penalty was {logged[0]:g} in all {len(logged)} rows that were logged, so it had no gradient and the run "
        "was trained as if without it. It sees too few points at once, or too few bars: choose more rows a batch, "
        "every token instead of one vector of each text, or all bars of the persistent entropy."
    )


def _make(name: Regularizer, lam: float, config: RunConfig) -> nn.Module:
    penalty = REGULARIZERS[name]
    settings = {argument: getattr(config, option) for option, argument in penalty.options.items() if argument}
    if penalty.sees is not None:
        settings["across_processes"] = config.processes > 1
    made: nn.Module = resolve_name(penalty.make)(lam, **settings)
    return made
