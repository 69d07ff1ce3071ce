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
    models, lambdas = {run.model for run in runs}, {lam for _, lam in planned}
    query = select(Run).where(Run.status == RunStatus.FINISHED, Run.model.in_(models), Run.lam.in_(lambdas))
    columns = load_only(Run.config, Run.regularizer, Run.lam, Run.status, Run.performance, Run.learning)
    failures: dict[tuple[Regularizer, float], list[bool]] = {}
    for run in context.scalars(query.options(columns).order_by(Run.finished_at.desc()).limit(MAX_EARLIER_RUNS)):
        failed = no_learning_note(run) is not None or divergence_note(run) is not None
        failures.setdefault((run.regularizer, run.lam), []).append(failed)
    warnings = [
        f"Caution: {REGULARIZER_NAMES[regularizer]} at λ = {short(lam)} learned nothing in {sum(failed_runs)} of "
        f"{len(failed_runs)} earlier runs. Choose a value nearer to 0."
        for regularizer, lam in planned
        if sum(failed_runs := failures.get((regularizer, lam), []))
        >= max(FEWEST_COLLAPSED, COLLAPSED_SHARE * len(failed_runs))
    ]
    unknown = any(
        name is Regularizer.ISTAR and lam <= KNOWN_LAMBDA and (name, lam) not in failures for name, lam in planned
    )
    return warnings or ([KNOWN_COLLAPSE] if unknown else [])
