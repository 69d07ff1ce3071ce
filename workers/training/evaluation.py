"""Evaluate a trained model on all validation rows, and on test rows whose scores are sealed."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session
from transformers import PreTrainedModel

from app.db.learning import describe_constant
from app.db.models import SealedScore, Split
from app.db.predictions import Predictions, write_predictions
from app.db.run_results import LastLayerValue, LayerValues, Reference, RunResults, SentenceVectors
from isoscope.core.task import Metric, TaskKind
from isoscope.files.columns import label_text
from isoscope.hidden_states import (
    ByLayer,
    LayerMeasures,
    LayerMoments,
    evaluation_mode,
    hidden_states_of,
    isoscore_star,
    tokens_by_layer,
)
from isotropy.score import Score
from workers.failure import NotFiniteError
from workers.training.data import Columns
from workers.training.inference import TokenizedRows, draw_row_indices, forward
from workers.training.progress import Progress
from workers.training.sentences import Sentences
from workers.training.tasks import Collector, Task

REFERENCE_ZETA = 0.75
SHRINKAGE_SEED = 0


@dataclass(frozen=True)
class Evaluation:
    """The results of a run, and the data of its figures."""

    performance: Score
    isoscore_star: Score
    results: RunResults
    figures: dict[str, dict[str, Any]]
    """The data of a ``RunFigure`` by its slug."""
    predictions: Predictions | None
    """On the validation rows; None if there are more than can be stored."""
    untrained_loss: float
    """The training loss of a model that has learned nothing."""
    notes: list[str]


@dataclass
class Observation:
    """Measurements from one pass over rows."""

    layers: LayerMeasures
    vectors: LayerMoments
    """Moments of every layer's sentence vectors."""
    sentences: Sentences
    predictions: Collector
    loss_sum: float = 0.0


def evaluate(
    model: PreTrainedModel,
    train: TokenizedRows,
    validation: TokenizedRows,
    task: Task,
    progress: Progress,
    positions: NDArray[np.int64] | None = None,
) -> Evaluation:
    """Return the metrics on all validation rows and IsoScore* of their tokens, at settings that all runs share.

    ``positions`` are the validation examples' positions in their split; by default, all of them.

    The cloud is the union of all layers without the embedding layer and padding, whatever the run was trained on.
    With ``config.evaluation_zeta`` = 0, no other points are needed. Above 0, IsoScore* needs the covariance of more
    points than it scores: training tokens under the trained model, up to ``config.shrinkage_points``, of rows drawn by
    a seed that all runs share. A layer's score is shrunk toward the training tokens of that layer.

    The results also hold further measures of each layer, for the same tokens and for sentence vectors, and scores by
    the protocol of the reference's analysis: the sentence vectors of each layer at zeta = 0.75, which are the first
    tokens of BERT and the last of GPT-2, shrunk toward all tokens of that layer, but without padding.
    """
    config = task.config
    observation = observe(model, validation, np.arange(len(validation)), task, progress)
    zeta, tokens = config.evaluation_zeta, observation.layers.tokens
    target_tokens = tokens
    if zeta > 0:
        row_indices = draw_row_indices(
            train.token_counts, config.shrinkage_points // len(tokens.layers), (SHRINKAGE_SEED,)
        )
        target_tokens = _measure_tokens(model, train, row_indices, task, progress)
    union, n = tokens.union(), tokens.layers[0].n
    pair_measures, pooling = observation.sentences.pair_measures(), observation.sentences.pooling
    by_layer = observation.layers.scores(zeta, target_tokens) | pair_measures
    reference_scores = [
        isoscore_star(vectors, REFERENCE_ZETA, layer)
        for vectors, layer in zip(observation.vectors.layers, tokens.layers, strict=True)
    ]
    metrics = observation.predictions.metrics()
    performance = metrics[config.metric]
    predictions, notes = _sorted_predictions(
        observation.predictions, np.arange(validation.n_examples) if positions is None else positions
    )
    results = RunResults(
        metrics={Metric(name): score.value for name, score in metrics.items()},
        metric_reasons={Metric(name): score.reason for name, score in metrics.items() if score.reason is not None},
        trivial=task.score_trivial_predictor(train, validation),
        constant_prediction=None if predictions is None else describe_constant(predictions, config.label_names),
        **task.extra_results(train, validation),
        loss=observation.loss_sum / len(validation),
        n_validation=validation.n_examples,
        tokens=n,
        points=union.n,
        zeta=zeta,
        by_layer={
            measure: LayerValues(
                values=[score.value for score in layer.scores], reasons=[score.reason for score in layer.scores]
            )
            for measure, layer in by_layer.items()
        },
        by_layer_n={measure: layer.n for measure, layer in by_layer.items()},
        sentences=SentenceVectors(pooling=pooling, last_layer=_last_layer_values(observation.sentences, pair_measures)),
        reference=Reference(
            zeta=REFERENCE_ZETA,
            pooling=pooling,
            n=observation.vectors.layers[0].n,
            layers=[score.value for score in reference_scores],
            layer_reasons=[score.reason for score in reference_scores],
        ),
    )
    activation = observation.sentences.activation()
    figures = {} if activation is None else {"activation": activation}
    union_score = isoscore_star(union, zeta, target_tokens.union())
    return Evaluation(performance, union_score, results, figures, predictions, task.untrained_loss(train), notes)


def observe(
    model: PreTrainedModel, rows: TokenizedRows, indices: NDArray[np.int64], task: Task, progress: Progress
) -> Observation:
    """Run rows through the model; return its predictions and the measures of its layers."""
    order = rows.longest_first(indices)
    label_column = "labels" if task.config.task is TaskKind.CLASSIFICATION else None
    sentences = Sentences(model, rows, indices, label_column)
    observation = Observation(LayerMeasures(model), LayerMoments(model), sentences, task.make_collector(rows, order))
    with evaluation_mode(model):
        for batch_outputs in forward(model, rows, order, task.config, progress):
            batch, outputs, batch_indices = batch_outputs
            states, mask = hidden_states_of(outputs), batch["attention_mask"]
            observation.layers.update(states, mask)
            vectors = sentences.pool_layers(states, mask)
            observation.vectors.update(vectors)
            observation.sentences.update(vectors, batch_indices)
            observation.predictions.add(outputs, batch)
            observation.loss_sum += batch_outputs.loss_sum
    if not math.isfinite(observation.loss_sum):
        raise NotFiniteError(
            "The trained model's loss is not a number on the rows it was evaluated on. Lower the learning rate.",
            "learning_rate",
        )
    return observation


def _sorted_predictions(collector: Collector, positions: NDArray[np.int64]) -> tuple[Predictions | None, list[str]]:
    try:
        return collector.sorted_predictions(positions), []
    except ValueError as error:
        return None, [f"Predictions are not stored: {error}."]


def _measure_tokens(
    model: PreTrainedModel, rows: TokenizedRows, indices: NDArray[np.int64], task: Task, progress: Progress
) -> LayerMoments:
    tokens, order = LayerMoments(model), rows.longest_first(indices)
    with evaluation_mode(model):
        for batch, outputs, _ in forward(model, rows, order, task.config, progress):
            tokens.update(tokens_by_layer(hidden_states_of(outputs), batch["attention_mask"]))
    return tokens


def _last_layer_values(sentences: Sentences, pair_measures: Mapping[str, ByLayer]) -> dict[str, LastLayerValue]:
    last_scores = {measure: (score, sentences.n) for measure, score in sentences.last_layer_scores().items()}
    last_scores |= {measure: (layers.scores[-1], layers.n) for measure, layers in pair_measures.items()}
    return {
        measure: LastLayerValue(value=score.value, reason=score.reason, n=n)
        for measure, (score, n) in last_scores.items()
    }


@dataclass(frozen=True)
class SealedRows:
    """Tokenized test rows, and the hash that identifies them."""

    rows: TokenizedRows
    sha256: str


@dataclass(frozen=True)
class SealedEvaluation:
    """A run's test scores. Never logged, and never part of ``Run.results``."""

    metrics: dict[str, Score]
    n: int
    rows_sha256: str
    predictions: Predictions | None
    """None if there are more than can be stored."""

    def write(self, session: Session, run_id: str) -> None:
        session.merge(
            SealedScore(
                run_id=run_id,
                metrics={name: score.value for name, score in self.metrics.items()},
                reasons={  # tasks only know validation rows
                    name: score.reason.replace("validation row", "test row")
                    for name, score in self.metrics.items()
                    if score.reason
                },
                n=self.n,
                rows_sha256=self.rows_sha256,
            )
        )
        if self.predictions is not None:
            write_predictions(session, run_id, Split.TEST, self.predictions)


def score_sealed(model: PreTrainedModel, sealed: SealedRows, task: Task, progress: Progress) -> SealedEvaluation:
    """Return the metrics of the test rows, without measuring layers."""
    rows = sealed.rows
    order = rows.longest_first(np.arange(len(rows)))
    collector = task.make_collector(rows, order)
    with evaluation_mode(model):
        for batch_outputs in forward(model, rows, order, task.config, progress, hidden_states=False):
            collector.add(batch_outputs.outputs, batch_outputs.batch)
    predictions, _ = _sorted_predictions(collector, np.arange(rows.n_examples))
    return SealedEvaluation(collector.metrics(), rows.n_examples, sealed.sha256, predictions)


def hash_rows(columns: Columns, text_columns: list[str], label_column: str) -> str:
    """Return a hash of texts and labels, whatever their order, file format or column names."""
    hashes = []
    for *texts, label in zip(*(columns[name] for name in [*text_columns, label_column]), strict=True):
        values = [None if text is None else str(text) for text in texts]
        values.append(None if label is None else label_text(label))
        hashes.append(hashlib.sha256(json.dumps(values, ensure_ascii=True).encode()).digest())
    return hashlib.sha256(b"".join(sorted(hashes))).hexdigest()
