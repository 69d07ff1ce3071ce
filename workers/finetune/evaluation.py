"""What a trained model is worth: its metrics and its isotropy, on all validation rows."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from app.db.models import Phase
from app.errors import InvalidError
from isotropy.score import Score
from workers.finetune.layers import LayerMoments, isoscore_star, rows_at_once
from workers.finetune.progress import Progress
from workers.finetune.rows import Rows
from workers.finetune.tasks import Predictions, Task
from workers.hidden_states import hidden_states_of, looking_at

REFERENCE_ZETA = 0.75
SHRINKAGE_SEED = 0


@dataclass(frozen=True)
class Evaluation:
    """The numbers of a run's row."""

    performance: float | None
    """None where the metric is undefined; ``results["metric_reasons"]`` says why."""
    isoscore_star: Score
    results: dict[str, Any]


@dataclass
class Observation:
    """What one pass over rows gathers."""

    tokens: LayerMoments
    first_tokens: LayerMoments
    predictions: Predictions
    rows: int = 0
    loss: float = 0.0
    """Summed over rows."""


def evaluate(model: PreTrainedModel, train: Rows, validation: Rows, task: Task, progress: Progress) -> Evaluation:
    """Return the metrics on all validation rows and IsoScore* of their tokens, at settings that all runs share.

    The cloud is the union of all layers, the embedding layer and padding left out, whatever the run was trained on.
    With ``config.evaluation_zeta`` = 0 that is all. Above it, IsoScore* needs the covariance of more points than it
    scores: that of training tokens under the trained model, up to ``config.shrinkage_points`` of rows drawn by a seed
    that all runs share. A layer's score is shrunk towards the training tokens of that layer.

    Beside it stands the protocol of the reference's analysis: the first tokens of each layer by themselves at zeta =
    0.75, shrunk towards all tokens of that layer; but its padding is left out.
    """
    config = task.config
    seen = observe(model, validation, np.arange(len(validation)), task, progress)
    metrics = seen.predictions.metrics()
    zeta, tokens = config.evaluation_zeta, seen.tokens
    towards = tokens
    if zeta > 0:
        drawn = train.draw(config.shrinkage_points // len(tokens.layers), (SHRINKAGE_SEED,))
        towards = observe(model, train, drawn, task, progress).tokens
    union = tokens.union()
    results = {
        "metrics": {name: score.value for name, score in metrics.items()},
        "metric_reasons": {name: score.reason for name, score in metrics.items() if score.reason is not None},
        **task.details(train, validation),
        "loss": seen.loss / len(validation),
        "n_validation": validation.examples,
        "tokens": tokens.layers[0].n,
        "points": union.n,
        "zeta": zeta,
        **_by_layer(tokens, zeta, towards),
        "reference": {"zeta": REFERENCE_ZETA, **_by_layer(seen.first_tokens, REFERENCE_ZETA, tokens)},
    }
    star = isoscore_star(union, zeta, towards.union())
    return Evaluation(metrics[config.metric].value, star, results)


def observe(
    model: PreTrainedModel, rows: Rows, indices: NDArray[np.int64], task: Task, progress: Progress
) -> Observation:
    """Run rows through the model and gather its predictions and the moments of its layers."""
    order = rows.longest_first(indices)
    seen = Observation(LayerMoments(model), LayerMoments(model), task.predictions(rows, order))
    progress.enter(Phase.EVALUATING, total=len(indices))
    with looking_at(model):
        for batch in rows.batches(order, rows_at_once(task.config), model.device):
            outputs = model(**batch, output_hidden_states=True)
            states, mask = hidden_states_of(outputs), batch["attention_mask"]
            seen.tokens.update(states, mask)
            seen.first_tokens.update(states, _first_of(mask))
            seen.predictions.add(outputs, batch)
            seen.rows += len(mask)
            seen.loss += float(outputs.loss) * len(mask)
            progress.advance(seen.rows)
    if not math.isfinite(seen.loss):
        raise InvalidError(
            "The trained model's loss is not a number on the rows it was evaluated on. Lower the learning rate."
        )
    return seen


def _by_layer(points: LayerMoments, zeta: float, towards: LayerMoments) -> dict[str, list[Any]]:
    """IsoScore* of each layer, null where it is undefined, and why."""
    pairs = zip(points.layers, towards.layers, strict=True)
    scores = [isoscore_star(layer, zeta, target) for layer, target in pairs]
    return {"layers": [score.value for score in scores], "layer_reasons": [score.reason for score in scores]}


def _first_of(mask: Tensor) -> Tensor:
    """Mask [batch, tokens] of each row's first token that is not padding, on whichever side that is."""
    return torch.nn.functional.one_hot(mask.argmax(dim=1), mask.shape[1])
