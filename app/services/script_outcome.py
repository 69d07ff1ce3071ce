"""What the predictions and losses that a script logged say of its run: what a worker finds out of its own."""

from typing import Any

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.divergence import find_divergence
from app.db.models import Run, Split, Step
from app.db.predictions import Predictions, read_predictions
from app.db.run_results import Divergence, Trivial
from app.db.trivial import best_class, best_number, constant_words
from isoscope.core.task import Metric, TaskKind


def judge(session: Session, run: Run) -> dict[str, Any]:
    """Return the fields of a run's results that its predictions and its losses tell: what of it is known."""
    found = read_predictions(session, [run.id], Split.VALIDATION).get(run.id)
    divergence = _divergence(session, run, found)
    told: dict[str, Any] = {} if divergence is None else {"divergence": divergence}
    if found is None:
        return told
    trivial = _trivial(found, run.config.metric)
    return {
        **told,
        "constant_prediction": constant_words(found, []),
        **({} if trivial is None else {"trivial": trivial}),
        "n_validation": len(found),
    }


def _trivial(found: Predictions, metric: Metric) -> Trivial | None:
    """The best constant predictor on the rows themselves, as no training rows are known; and names of classes."""
    if found.reference is None or isinstance(found.predicted, tuple):
        return None
    if found.kind is TaskKind.REGRESSION:
        return best_number(found.reference.astype(np.float64), "validation")
    labels, places = np.unique(np.concatenate([found.reference, found.predicted]), return_inverse=True)
    names = [str(label) for label in labels.tolist()]
    reference = places[: len(found)]
    return best_class(reference, reference, names, metric, "validation")


def _divergence(session: Session, run: Run, found: Predictions | None) -> Divergence | None:
    """Whether its training diverged. A step without loss, penalty and layers is one whose loss was not a number."""
    nothing_else = Step.penalty.is_(None) & Step.layers.is_(None)
    logged = select(Step.task_loss).where(Step.run_id == run.id, Step.task_loss.is_not(None) | nothing_else)
    losses = list(session.scalars(logged.order_by(Step.step)))
    return find_divergence(losses, _untrained_loss(found))


def _untrained_loss(found: Predictions | None) -> float | None:
    """The loss of a model that knows nothing yet, as far as the references tell."""
    if found is None or found.reference is None:
        return None
    if found.kind is TaskKind.CLASSIFICATION:
        return float(np.log(max(2, len(np.unique(found.reference)))))
    return float(np.mean(np.square(found.reference)))
