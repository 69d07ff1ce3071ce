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
    LayerMeasures,
    LayerMoments,
    LayerScores,
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
from workers.training.sentences import SentenceMeasures
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
    """Of the validation rows; None if there are more than can be stored."""
    untrained_loss: float
    """The training loss of a model that has learned nothing."""
    notes: list[str]


@dataclass
class Observation:
    """Measurements from one pass over rows."""

    token_measures: LayerMeasures
    sentence_moments: LayerMoments
    sentence_measures: SentenceMeasures
    collector: Collector
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

    ``positions`` are the validation examples' positions in their split; by default they are the whole split.

    IsoScore* is that of the tokens of all layers together, without the embedding layer and padding, whatever points
    the run was trained on. If ``config.evaluation_zeta`` > 0, it is shrunk toward the covariance of training tokens,
    up to ``config.shrinkage_points``, whose rows are drawn by a seed that all runs share.

    The results also hold further measures of each layer's tokens and sentence vectors. Those in ``reference`` repeat
    the analysis of the reference code, but without padding: IsoScore* of each layer's sentence vectors (of the first
    tokens of BERT, the last ones of GPT-2), shrunk toward all tokens of that layer.
    """
    config = task.config
    observation = observe(model, validation, np.arange(len(validation)), task, progress)
    tokens, sentence_measures = observation.token_measures.tokens, observation.sentence_measures
    zeta = config.evaluation_zeta
    target_tokens = tokens
    if zeta > 0:
        max_tokens = config.shrinkage_points // len(tokens.layers)
        row_indices = draw_row_indices(train.token_counts, max_tokens, (SHRINKAGE_SEED,))
        target_tokens = _token_moments(model, train, row_indices, task, progress)
    union = tokens.union()
    pair_measures = sentence_measures.pair_measures()
    last_layer = _last_layer_values(sentence_measures, pair_measures)
    measures = observation.token_measures.scores(zeta, target_tokens) | pair_measures
    reference_scores = [
        isoscore_star(sentence_moments, REFERENCE_ZETA, token_moments)
        for sentence_moments, token_moments in zip(observation.sentence_moments.layers, tokens.layers, strict=True)
    ]
    metrics = observation.collector.metrics()
    performance = metrics[config.metric]
    if positions is None:
        positions = np.arange(validation.n_examples)
    predictions, notes = _sorted_predictions(observation.collector, positions)
    results = RunResults(
        metrics={Metric(name): score.value for name, score in metrics.items()},
        metric_reasons={Metric(name): score.reason for name, score in metrics.items() if score.reason is not None},
        trivial=task.score_trivial_predictor(train, validation),
        constant_prediction=None if predictions is None else describe_constant(predictions, config.label_names),
        **task.extra_results(train, validation),
        loss=observation.loss_sum / len(validation),
        n_validation=validation.n_examples,
        tokens=tokens.layers[0].n,
        points=union.n,
        zeta=zeta,
        by_layer={
            measure: LayerValues(
                values=[score.value for score in by_layer.scores], reasons=[score.reason for score in by_layer.scores]
            )
            for measure, by_layer in measures.items()
        },
        by_layer_n={measure: by_layer.n for measure, by_layer in measures.items()},
        sentences=SentenceVectors(pooling=sentence_measures.pooling, last_layer=last_layer),
        reference=Reference(
            zeta=REFERENCE_ZETA,
            pooling=sentence_measures.pooling,
            n=observation.sentence_moments.layers[0].n,
            layers=[score.value for score in reference_scores],
            layer_reasons=[score.reason for score in reference_scores],
        ),
    )
    activation = sentence_measures.activation()
    figures = {} if activation is None else {"activation": activation}
    union_score = isoscore_star(union, zeta, target_tokens.union())
    return Evaluation(performance, union_score, results, figures, predictions, task.untrained_loss(train), notes)


def observe(
    model: PreTrainedModel, rows: TokenizedRows, indices: NDArray[np.int64], task: Task, progress: Progress
) -> Observation:
    """Run rows through the model; collect predictions and measures. Raise NotFiniteError if the loss is not finite."""
    order = rows.longest_first(indices)
    label_column = "labels" if task.config.task is TaskKind.CLASSIFICATION else None
    sentence_measures = SentenceMeasures(model, rows, indices, label_column)
    collector = task.make_collector(rows, order)
    observation = Observation(LayerMeasures(model), LayerMoments(model), sentence_measures, collector)
    with evaluation_mode(model):
        for batch_outputs in forward(model, rows, order, task.config, progress):
            batch, outputs, batch_indices = batch_outputs
            states, mask = hidden_states_of(outputs), batch["attention_mask"]
            observation.token_measures.update(states, mask)
            vectors = sentence_measures.pool_layers(states, mask)
            observation.sentence_moments.update(vectors)
            sentence_measures.update(vectors, batch_indices)
            collector.add(outputs, batch)
            observation.loss_sum += batch_outputs.loss_sum
    if not math.isfinite(observation.loss_sum):
        raise NotFiniteError(
            "The trained model's loss is not a number on the rows it was evaluated on. Lower the learning rate.",
            "learning_rate",
        )
    return observation


def _sorted_predictions(collector: Collector, positions: NDArray[np.int64]) -> tuple[Predictions | None, list[str]]:
    """Return predictions in the order of the split and notes: None and a note if they cannot be stored."""
    try:
        return collector.sorted_predictions(positions), []
    except ValueError as error:
        return None, [f"Predictions are not stored: {error}."]


def _token_moments(
    model: PreTrainedModel, rows: TokenizedRows, indices: NDArray[np.int64], task: Task, progress: Progress
) -> LayerMoments:
    tokens, order = LayerMoments(model), rows.longest_first(indices)
    with evaluation_mode(model):
        for batch, outputs, _ in forward(model, rows, order, task.config, progress):
            tokens.update(tokens_by_layer(hidden_states_of(outputs), batch["attention_mask"]))
    return tokens


def _last_layer_values(
    sentences: SentenceMeasures, pair_measures: Mapping[str, LayerScores]
) -> dict[str, LastLayerValue]:
    scores = {measure: (score, sentences.n) for measure, score in sentences.last_layer_scores().items()}
    scores |= {measure: (layers.scores[-1], layers.n) for measure, layers in pair_measures.items()}
    return {
        measure: LastLayerValue(value=score.value, reason=score.reason, n=n) for measure, (score, n) in scores.items()
    }


@dataclass(frozen=True)
class HashedRows:
    """Tokenized test rows, and the hash that identifies them."""

    rows: TokenizedRows
    sha256: str


@dataclass(frozen=True)
class SealedEvaluation:
    """A run's test scores, sealed: never logged, and never part of ``Run.results``."""

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
                reasons={  # the words of tasks are for validation rows
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


def score_test_rows(model: PreTrainedModel, test: HashedRows, task: Task, progress: Progress) -> SealedEvaluation:
    """Return the metrics on the test rows, without measuring layers."""
    rows = test.rows
    order = rows.longest_first(np.arange(len(rows)))
    collector = task.make_collector(rows, order)
    with evaluation_mode(model):
        for batch_outputs in forward(model, rows, order, task.config, progress, hidden_states=False):
            collector.add(batch_outputs.outputs, batch_outputs.batch)
    predictions, _ = _sorted_predictions(collector, np.arange(rows.n_examples))
    return SealedEvaluation(collector.metrics(), rows.n_examples, test.sha256, predictions)


def hash_rows(columns: Columns, text_columns: list[str], label_column: str) -> str:
    """Return a hash of the rows' texts and labels, the same for any order of rows, file format or column names."""
    hashes = []
    for *texts, label in zip(*(columns[name] for name in [*text_columns, label_column]), strict=True):
        values = [None if text is None else str(text) for text in texts]
        values.append(None if label is None else label_text(label))
        hashes.append(hashlib.sha256(json.dumps(values, ensure_ascii=True).encode()).digest())
    return hashlib.sha256(b"".join(sorted(hashes))).hexdigest()
