"""What a trained model is worth: its metrics and its isotropy, on all validation rows."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
from torch import Tensor
from transformers import PreTrainedModel

from app.db.config import Metric, RunConfig
from app.db.models import Phase
from app.errors import InvalidError
from isotropy.score import Score
from workers.finetune.data import Rows
from workers.finetune.layers import LayerMoments, isoscore_star, rows_at_once
from workers.finetune.progress import Progress
from workers.hidden_states import hidden_states_of, looking_at

REFERENCE_ZETA = 0.75
SHRINKAGE_SEED = 0


@dataclass(frozen=True)
class Evaluation:
    """The numbers of a run's row."""

    performance: float
    isoscore_star: Score
    results: dict[str, Any]


@dataclass
class Observation:
    """What one pass over rows gathers."""

    tokens: LayerMoments
    first_tokens: LayerMoments
    labels: list[int] = field(default_factory=list)
    predictions: list[int] = field(default_factory=list)
    loss: float = 0.0
    """Summed over rows."""


def evaluate(
    model: PreTrainedModel, train: Rows, validation: Rows, config: RunConfig, progress: Progress
) -> Evaluation:
    """Return the metrics on all validation rows and IsoScore* of their tokens, at settings that all runs share.

    The cloud is the union of all layers, the embedding layer and padding left out, whatever the run was trained on.
    With ``config.evaluation_zeta`` = 0 that is all. Above it, IsoScore* needs the covariance of more points than it
    scores: that of training tokens under the trained model, up to ``config.shrinkage_points`` of rows drawn by a seed
    that all runs share. A layer's score is shrunk towards the training tokens of that layer.

    Beside it stands the protocol of the reference's analysis: the first tokens of each layer by themselves at zeta =
    0.75, shrunk towards all tokens of that layer; but its padding is left out.
    """
    seen = observe(model, validation, np.arange(len(validation)), config, progress)
    metrics = _metrics(seen.labels, seen.predictions, len(config.label_names))
    zeta, tokens = config.evaluation_zeta, seen.tokens
    towards = tokens
    if zeta > 0:
        drawn = train.draw(config.shrinkage_points // len(tokens.layers), (SHRINKAGE_SEED,))
        towards = observe(model, train, drawn, config, progress).tokens
    union = tokens.union()
    results = {
        "metrics": metrics,
        "f1_average": _f1_average(len(config.label_names)),
        "loss": seen.loss / len(validation),
        "n_validation": len(validation),
        "tokens": tokens.layers[0].n,
        "points": union.n,
        "zeta": zeta,
        **_by_layer(tokens, zeta, towards),
        "reference": {"zeta": REFERENCE_ZETA, **_by_layer(seen.first_tokens, REFERENCE_ZETA, tokens)},
    }
    star = isoscore_star(union, zeta, towards.union())
    return Evaluation(metrics[config.metric], star, results)


def observe(
    model: PreTrainedModel, rows: Rows, indices: NDArray[np.int64], config: RunConfig, progress: Progress
) -> Observation:
    """Run rows through the model and gather its predictions and the moments of its layers."""
    seen = Observation(LayerMoments(model), LayerMoments(model))
    progress.enter(Phase.EVALUATING, total=len(indices))
    with looking_at(model):
        for batch in rows.batches(rows.longest_first(indices), rows_at_once(config), model.device):
            outputs = model(**batch, output_hidden_states=True)
            states, mask = hidden_states_of(outputs), batch["attention_mask"]
            seen.tokens.update(states, mask)
            seen.first_tokens.update(states, _first_of(mask))
            seen.labels += batch["labels"].tolist()
            seen.predictions += outputs.logits.argmax(dim=-1).tolist()
            seen.loss += float(outputs.loss) * len(mask)
            progress.advance(len(seen.labels))
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


def _f1_average(n_labels: int) -> str:
    """Of two labels the second is the one looked for; of more, each counts the same."""
    return "binary" if n_labels == 2 else "macro"


def _metrics(labels: list[int], predictions: list[int], n_labels: int) -> dict[str, float]:
    f1 = f1_score(labels, predictions, average=_f1_average(n_labels), zero_division=0)
    return {
        Metric.ACCURACY.value: float(accuracy_score(labels, predictions)),
        Metric.F1.value: float(f1),
        Metric.MATTHEWS.value: float(matthews_corrcoef(labels, predictions)),
    }
