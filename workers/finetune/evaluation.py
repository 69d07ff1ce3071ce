"""What a trained model is worth: its metrics and its isotropy, on all validation rows."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedModel

from app.db.predictions import Predictions
from app.db.run_results import LastLayerValue, LayerValues, Reference, RunResults, SentenceVectors
from app.db.trivial import constant_words
from isoscope.core.task import Metric, TaskKind
from isoscope.hidden_states import hidden_states_of, looking_at
from isoscope.layer_measures import ByLayer, LayerMeasures, LayerMoments, isoscore_star, tokens_by_layer
from isotropy.score import Score
from workers.failure import NotFiniteError
from workers.finetune.looking import forward
from workers.finetune.progress import Progress
from workers.finetune.rows import Rows
from workers.finetune.sentences import Sentences
from workers.finetune.tasks import Collector, Task

REFERENCE_ZETA = 0.75
SHRINKAGE_SEED = 0


@dataclass(frozen=True)
class Evaluation:
    """The numbers of a run's row, and what its figures show."""

    performance: Score
    isoscore_star: Score
    results: RunResults
    figures: dict[str, dict[str, Any]]
    """The data of a ``RunFigure`` by its slug."""
    predictions: Predictions | None
    """On the validation rows; None where these are more than can be stored."""
    untrained_loss: float
    """Of a model that knows nothing yet, on the training rows."""
    notes: list[str]


@dataclass
class Observation:
    """What one pass over rows gathers."""

    layers: LayerMeasures
    vectors: LayerMoments
    """Of the sentence vectors of every layer."""
    sentences: Sentences
    predictions: Collector
    loss: float = 0.0
    """Summed over rows."""


def evaluate(
    model: PreTrainedModel,
    train: Rows,
    validation: Rows,
    task: Task,
    progress: Progress,
    numbers: NDArray[np.int64] | None = None,
) -> Evaluation:
    """Return the metrics on all validation rows and IsoScore* of their tokens, at settings that all runs share.

    ``numbers`` are the positions of the validation examples in their split; without them they are all of it.

    The cloud is the union of all layers, the embedding layer and padding left out, whatever the run was trained on.
    With ``config.evaluation_zeta`` = 0 that is all. Above it, IsoScore* needs the covariance of more points than it
    scores: that of training tokens under the trained model, up to ``config.shrinkage_points`` of rows drawn by a seed
    that all runs share. A layer's score is shrunk towards the training tokens of that layer.

    Beside it stand further measures of each layer, of the same tokens and of sentence vectors; and the protocol of the
    reference's analysis: the sentence vectors of each layer by themselves at zeta = 0.75, first tokens of BERT and last
    ones of GPT-2, shrunk towards all tokens of that layer; but its padding is left out.
    """
    config = task.config
    seen = observe(model, validation, np.arange(len(validation)), task, progress)
    zeta, tokens = config.evaluation_zeta, seen.layers.tokens
    towards = tokens
    if zeta > 0:
        drawn = train.draw(config.shrinkage_points // len(tokens.layers), (SHRINKAGE_SEED,))
        towards = _tokens(model, train, drawn, task, progress)
    union, n = tokens.union(), tokens.layers[0].n
    pairs, pooling = seen.sentences.pairs(), seen.sentences.pooling
    by_layer = seen.layers.scores(zeta, towards) | pairs
    reference = [
        isoscore_star(vectors, REFERENCE_ZETA, layer)
        for vectors, layer in zip(seen.vectors.layers, tokens.layers, strict=True)
    ]
    metrics = seen.predictions.metrics()
    performance = metrics[config.metric]
    predictions, notes = _by_row(seen.predictions, np.arange(validation.examples) if numbers is None else numbers)
    results = RunResults(
        metrics={Metric(name): score.value for name, score in metrics.items()},
        metric_reasons={Metric(name): score.reason for name, score in metrics.items() if score.reason is not None},
        trivial=task.trivial(train, validation),
        constant_prediction=None if predictions is None else constant_words(predictions, config.label_names),
        **task.details(train, validation),
        loss=seen.loss / len(validation),
        n_validation=validation.examples,
        tokens=n,
        points=union.n,
        zeta=zeta,
        by_layer={measure: _values(found.scores) for measure, found in by_layer.items()},
        by_layer_n={measure: found.n for measure, found in by_layer.items()},
        sentences=SentenceVectors(pooling=pooling, last_layer=_last_layer(seen.sentences, pairs)),
        reference=Reference(
            zeta=REFERENCE_ZETA,
            pooling=pooling,
            n=seen.vectors.layers[0].n,
            layers=[score.value for score in reference],
            layer_reasons=[score.reason for score in reference],
        ),
    )
    activation = seen.sentences.activation()
    figures = {} if activation is None else {"activation": activation}
    star = isoscore_star(union, zeta, towards.union())
    return Evaluation(performance, star, results, figures, predictions, task.untrained_loss(train), notes)


def observe(
    model: PreTrainedModel, rows: Rows, indices: NDArray[np.int64], task: Task, progress: Progress
) -> Observation:
    """Run rows through the model and gather its predictions and the measures of its layers."""
    order = rows.longest_first(indices)
    labels = "labels" if task.config.task is TaskKind.CLASSIFICATION else None
    sentences = Sentences(model, rows, indices, labels)
    seen = Observation(LayerMeasures(model), LayerMoments(model), sentences, task.predictions(rows, order))
    with looking_at(model):
        for looked in forward(model, rows, order, task.config, progress):
            batch, outputs, places = looked
            states, mask = hidden_states_of(outputs), batch["attention_mask"]
            seen.layers.update(states, mask)
            vectors = sentences.pooled(states, mask)
            seen.vectors.update(vectors)
            seen.sentences.update(vectors, places)
            seen.predictions.add(outputs, batch)
            seen.loss += looked.loss
    if not math.isfinite(seen.loss):
        raise NotFiniteError(
            "The trained model's loss is not a number on the rows it was evaluated on. Lower the learning rate.",
            "learning_rate",
        )
    return seen


def _by_row(collected: Collector, numbers: NDArray[np.int64]) -> tuple[Predictions | None, list[str]]:
    """What was predicted row by row, or a note that says why it is not stored."""
    try:
        return collected.by_row(numbers), []
    except ValueError as error:
        return None, [f"Predictions are not stored: {error}."]


def _tokens(
    model: PreTrainedModel, rows: Rows, indices: NDArray[np.int64], task: Task, progress: Progress
) -> LayerMoments:
    """Moments of the tokens of rows at every layer."""
    tokens, order = LayerMoments(model), rows.longest_first(indices)
    with looking_at(model):
        for batch, outputs, _ in forward(model, rows, order, task.config, progress):
            tokens.update(tokens_by_layer(hidden_states_of(outputs), batch["attention_mask"]))
    return tokens


def _values(scores: list[Score]) -> LayerValues:
    """Values, null where undefined, and why."""
    return LayerValues(values=[score.value for score in scores], reasons=[score.reason for score in scores])


def _last_layer(sentences: Sentences, pairs: Mapping[str, ByLayer]) -> dict[str, LastLayerValue]:
    """Measures of the last layer's sentence vectors."""
    found = {measure: (score, sentences.n) for measure, score in sentences.last_layer().items()}
    found |= {measure: (layers.scores[-1], layers.n) for measure, layers in pairs.items()}
    return {
        measure: LastLayerValue(value=score.value, reason=score.reason, n=n) for measure, (score, n) in found.items()
    }
