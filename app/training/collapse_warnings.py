"""Warnings before launch about λ at which a regularizer outweighs the task."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import load_only

from app.context import Context
from app.core.evidence import COLLAPSED_SHARE, FEWEST_COLLAPSED
from app.db.config import RunConfig
from app.db.learning import divergence_note, no_learning_note
from app.db.models import Run, RunStatus
from app.db.options.regularization import REGULARIZER_NAMES
from isoscope.core.formatting import short
from isotropy.catalog import Regularizer

MAX_EARLIER_RUNS = 200
KNOWN_LAMBDA = -1.0
KNOWN_COLLAPSE = (
    "Caution: I-STAR at λ = −1 and below collapsed on RTE: MPNet gave every row one prediction, with each of three "
    "seeds. Add values nearer to 0, such as −0.01."
)


def warn_of_collapse(context: Context, runs: Sequence[RunConfig]) -> list[str]:
    """Name each regularizer's λ at which most earlier runs of the same models learned nothing."""
    planned = sorted({(run.regularizer, run.lam) for run in runs if run.lam})
    query = (
        select(Run)
        .where(
            Run.status == RunStatus.FINISHED,
            Run.model.in_({run.model for run in runs}),
            Run.lam.in_({lam for _, lam in planned}),
        )
        .options(load_only(Run.config, Run.regularizer, Run.lam, Run.status, Run.performance, Run.learning))
        .order_by(Run.finished_at.desc())
        .limit(MAX_EARLIER_RUNS)
    )
    failures: dict[tuple[Regularizer, float], list[bool]] = {}
    for run in context.scalars(query):
        failed = no_learning_note(run) is not None or divergence_note(run) is not None
        failures.setdefault((run.regularizer, run.lam), []).append(failed)
    warnings = []
    for regularizer in dict.fromkeys(regularizer for regularizer, _ in planned):
        collapsed = {
            lam: seeds
            for lam in (lam for name, lam in planned if name is regularizer)
            if sum(seeds := failures.get((regularizer, lam), [])) >= max(FEWEST_COLLAPSED, COLLAPSED_SHARE * len(seeds))
        }
        if collapsed:
            n_failed, n_runs = sum(map(sum, collapsed.values())), sum(map(len, collapsed.values()))
            warnings.append(
                f"Caution: {REGULARIZER_NAMES[regularizer]} at λ = {', '.join(map(short, collapsed))} learned nothing "
                f"in {n_failed} of {n_runs} earlier runs. Choose values nearer to 0."
            )
        elif regularizer is Regularizer.ISTAR and any(
            name is regularizer and lam <= KNOWN_LAMBDA and (name, lam) not in failures for name, lam in planned
        ):
            warnings.append(KNOWN_COLLAPSE)
    return warnings
