"""Whether a run learned anything: the rule for divergence, and the trivial predictor of its task.

Training diverged if the mean of the last tenth of its logged task losses is more than twice its starting loss, or if
one of them is not a number. The starting loss is that of an untrained model: the same probability for every class, 0
for every number, any token for an answer. If the mean of the first tenth of the logged losses is higher, that mean is
used instead, because initial weights may be bad. If that mean is three times the untrained loss or more, training
exploded in its first logged steps, and the untrained loss is used after all.
"""

from collections.abc import Sequence
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from app.db.models import RunStatus
from app.db.predictions import Predictions
from app.db.run_results import Divergence, Trivial
from app.db.run_rows import AnyRun
from isoscope.core.formatting import number
from isoscope.core.task import Metric, TaskKind

LOSS_PARTS = 10
DIVERGENCE_FACTOR = 2.0
MAX_START_FACTOR = 3.0
# Metrics by which a constant predictor counts as 0 where it is undefined.
CORRELATIONS = (Metric.MATTHEWS, Metric.PEARSON, Metric.SPEARMAN)
ROUNDING_ERROR = 1e-9
MAX_QUOTED_CHARACTERS = 60
NO_CORRELATION = "A constant correlates with nothing. A model that learned nothing scores about 0."


def find_divergence(losses: Sequence[float | None], untrained_loss: float | None) -> Divergence | None:
    """Return how a training diverged; None if it did not, or if too few losses are known.

    ``losses`` are the logged task losses, None if not a number. ``untrained_loss`` is None if unknown.
    """
    tenth = max(1, len(losses) // LOSS_PARTS)
    first_losses = [loss for loss in losses[:tenth] if loss is not None]
    first_mean = sum(first_losses) / len(first_losses) if first_losses else None
    start = first_mean if untrained_loss is None else untrained_loss
    if untrained_loss is not None and first_mean is not None and first_mean < MAX_START_FACTOR * untrained_loss:
        start = max(untrained_loss, first_mean)
    if len(losses) < 2:
        return None
    last_losses = [loss for loss in losses[-tenth:] if loss is not None and isfinite(loss)]
    if len(last_losses) < tenth:
        return Divergence(loss=None, start=start)
    if start is None or start <= 0:
        return None
    loss = sum(last_losses) / tenth
    return Divergence(loss=loss, start=start) if loss > DIVERGENCE_FACTOR * start else None


def divergence_note(run: AnyRun) -> str | None:
    """Return a sentence on how a run's training diverged; None if it did not, or if that is unknown."""
    divergence = run.learning.divergence if run.learning and run.status.final else None
    return None if divergence is None else describe_divergence(divergence)


def describe_divergence(divergence: Divergence) -> str:
    if divergence.start is None:
        return "Training diverged: its task loss was not a number from the first step on."
    start = f"{divergence.start:.3g}"
    if divergence.loss is None:
        return f"Training diverged: its task loss started at {start} and was not a number at the end."
    return f"Training diverged: its task loss ended at {divergence.loss:.3g}, after starting at {start}."


Labels = NDArray[np.int64]


def best_constant_class(train: Labels, scored: Labels, names: Sequence[str], metric: Metric, split: str) -> Trivial:
    """Return the predictor of the class that, always predicted, maximizes the metric on ``train``.

    Its scores are those on ``scored``. Both arrays [n] index ``names``. The class is the most frequent one; for F1 of
    two classes it is the second, which F1 looks for. ``split`` names the rows of ``train`` in the sentence.
    """
    most_frequent = int(np.bincount(train).argmax())
    f1_decides = metric is Metric.F1 and len(names) == 2 and 1 in train
    chosen = 1 if f1_decides else most_frequent
    reason = (
        f"the most frequent class of the {split} rows" if chosen == most_frequent else "the class that F1 looks for"
    )
    share = float((scored == chosen).mean())
    f1: float | None = 2 * share / (1 + share)  # of the chosen class, if F1 looks for it
    if len(names) != 2:  # the mean over classes: F1 is 0 in every class but the chosen
        f1 = 2 * share / (1 + share) / len({*np.unique(scored).tolist(), chosen})
    elif 1 not in scored:
        f1 = None
    elif chosen != 1:
        f1 = 0.0
    matthews = 0.0 if len(np.unique(scored)) > 1 else None
    values = {Metric.ACCURACY: share, Metric.F1: f1, Metric.MATTHEWS: matthews}
    reasons = {
        Metric.F1: "No row has the class that F1 looks for.",
        Metric.MATTHEWS: "All rows have the same class, so correlations are undefined.",
    }
    return Trivial(
        predictor=f"always {_quoted(names[chosen])}, {reason}",
        metrics=values,
        reasons={name: reasons[name] for name, value in values.items() if value is None},
    )


def mean_predictor(train: NDArray[np.float64], split: str) -> Trivial:
    """Return the predictor of the mean of ``train``. It has no scores, because a constant correlates with nothing."""
    names = (Metric.PEARSON, Metric.SPEARMAN)
    return Trivial(
        predictor=f"always {number(float(train.mean()), 4)}, the mean of the {split} rows",
        metrics=dict.fromkeys(names),
        reasons=dict.fromkeys(names, NO_CORRELATION),
    )


def empty_answer_predictor(exact_match: float, f1: float) -> Trivial:
    """Return the predictor of an empty answer with its two scores, each a mean over questions."""
    metrics: dict[Metric, float | None] = {Metric.WORD_F1: f1, Metric.EXACT_MATCH: exact_match}
    return Trivial(predictor="always an empty answer", metrics=metrics, reasons={})


def describe_constant(predictions: Predictions, names: Sequence[str]) -> str | None:
    """Return the prediction that all rows share, as text; None if they differ, or if there is only one row."""
    constant = predictions.constant
    if constant is None or len(predictions) == 1:
        return None
    if predictions.kind is TaskKind.CLASSIFICATION:
        index = int(constant)
        return _quoted(names[index] if 0 <= index < len(names) else str(index))
    return _quoted(constant) if isinstance(constant, str) else f"{constant:.4g}"


def trivial_score(run: AnyRun) -> float | None:
    """Return the trivial predictor's score by a run's metric; None if unknown. An undefined correlation counts as 0."""
    if run.learning is None or run.learning.trivial is None:
        return None
    metric = run.config.metric
    value = run.learning.trivial.metrics.get(metric)
    return 0.0 if value is None and metric in CORRELATIONS else value


def trivial_predictor(run: AnyRun) -> str:
    return run.learning.trivial.predictor if run.learning and run.learning.trivial else ""


def no_learning_note(run: AnyRun) -> str | None:
    """Return why a finished run learned nothing; None if it learned something, or if that is unknown."""
    if run.status is not RunStatus.FINISHED:
        return None
    if run.learning is not None and run.learning.constant_prediction is not None:
        return f"Every validation row was predicted as {run.learning.constant_prediction}."
    score = trivial_score(run)
    if score is None or run.performance is None or run.performance > score + ROUNDING_ERROR:
        return None
    performance, trivial = number(run.performance), number(score)
    return f"Performance {performance} is not above the trivial predictor’s {trivial} ({trivial_predictor(run)})."


def _quoted(text: str) -> str:
    return f"“{text if len(text) <= MAX_QUOTED_CHARACTERS else text[:MAX_QUOTED_CHARACTERS] + '…'}”"
