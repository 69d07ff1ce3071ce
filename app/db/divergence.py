"""Whether a training diverged: one rule, for runs of workers and of scripts.

A training diverged where the mean of the last tenth of its logged task losses is more than twice the loss that it
started from, or where one of that tenth is not a number. Where it started from is the loss of a model that knows
nothing yet (the same probability for every class, 0 for every number, any token for an answer), or the mean of the
first tenth of its logged losses where that is higher, but not three times as high: a training may begin from badly
drawn weights, but one that explodes within its first logged steps must not set its own level.
"""

from collections.abc import Sequence
from math import isfinite

from app.db.models import Run
from app.db.run_results import Divergence

PARTS = 10
FACTOR = 2.0
MOST_TIMES_UNTRAINED = 3.0


def find_divergence(losses: Sequence[float | None], untrained: float | None) -> Divergence | None:
    """Return how a training diverged, if it did.

    Args:
        losses: the logged task losses in order, None for one that was not a number.
        untrained: the loss of a model that knows nothing yet; None where that is unknown.

    """
    part = max(1, len(losses) // PARTS)
    start = _start([loss for loss in losses[:part] if loss is not None], untrained)
    if len(losses) < 2 or start is None or start <= 0:
        return None
    end = [loss for loss in losses[-part:] if loss is not None and isfinite(loss)]
    if len(end) < part:
        return Divergence(loss=None, start=start)
    loss = sum(end) / part
    return Divergence(loss=loss, start=start) if loss > FACTOR * start else None


def diverged(run: Run) -> str | None:
    """Return how a run's training diverged, as a sentence; None where it did not, or where nothing tells."""
    told = run.learning.divergence if run.learning and run.status.final else None
    return None if told is None else divergence_words(told)


def divergence_words(found: Divergence) -> str:
    """Return what is to be said of it."""
    start = f"{found.start:.3g}"
    if found.loss is None:
        return f"Training diverged: its task loss started at {start} and was not a number at the end."
    return f"Training diverged: its task loss ended at {found.loss:.3g}, after starting at {start}."


def _start(first: Sequence[float], untrained: float | None) -> float | None:
    logged = sum(first) / len(first) if first else None
    if untrained is None or logged is None:
        return logged if untrained is None else untrained
    return max(untrained, logged) if logged < MOST_TIMES_UNTRAINED * untrained else untrained
