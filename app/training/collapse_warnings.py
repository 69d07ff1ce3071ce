"""Warnings before launch about λ at which a regularizer outweighs the task."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import load_only

from app.context import Context
from app.core.evidence import most_collapsed
from app.db.config import RunConfig
from app.db.learning import divergence_note, no_learning_note
from app.db.models import Run, RunStatus
from app.db.options.regularization import REGULARIZER_NAMES
from isoscope.core.formatting import short
from isotropy.catalog import Regularizer

MAX_EARLIER_RUNS = 200
KNOWN_COLLAPSE_LAMBDA = -1.0
KNOWN_COLLAPSE = (
    "Caution: I-STAR at λ = −1 and below collapsed on RTE: MPNet gave every row one prediction, with each of three "
    "seeds. Add values nearer to 0, such as −0.01."
)


def warn_of_collapse(context: Context, runs: Sequence[RunConfig]) -> list[str]:
    """Warn of each planned λ at which most earlier runs of the same models failed, else of the known collapse.

    Runs of experiments whose baselines failed, too, do not count: λ is not the reason there.
    """
    planned = sorted({(run.regularizer, run.lam) for run in runs if run.lam})
    models, lambdas = {run.model for run in runs}, {lam for _, lam in planned}
    query = select(Run).where(Run.status == RunStatus.FINISHED, Run.model.in_(models))
    columns = Run.config, Run.experiment_id, Run.regularizer, Run.lam, Run.status, Run.performance, Run.learning
    query = query.options(load_only(*columns)).order_by(Run.finished_at.desc())
    runs_at_lambdas = context.scalars(query.where(Run.lam.in_(lambdas)).limit(MAX_EARLIER_RUNS))
    experiment_ids = {run.experiment_id for run in runs_at_lambdas}
    baselines_failed: dict[str, list[bool]] = {}
    for run in context.scalars(query.where(Run.lam == 0, Run.experiment_id.in_(experiment_ids))):
        baselines_failed.setdefault(run.experiment_id, []).append(_has_failed(run))
    failed_by_setting: dict[tuple[Regularizer, float], list[bool]] = {}
    for run in runs_at_lambdas:
        failed_flags = baselines_failed.get(run.experiment_id, [])
        if not most_collapsed(sum(failed_flags), len(failed_flags)):
            failed_by_setting.setdefault((run.regularizer, run.lam), []).append(_has_failed(run))
    warnings, is_known_collapse = [], False
    for regularizer, lam in planned:
        failed_flags = failed_by_setting.get((regularizer, lam), [])
        n_failed, n_runs = sum(failed_flags), len(failed_flags)
        if most_collapsed(n_failed, n_runs):
            warnings.append(
                f"Caution: {REGULARIZER_NAMES[regularizer]} at λ = {short(lam)} learned nothing or diverged in "
                f"{n_failed} of {n_runs} earlier runs. Choose a value nearer to 0."
            )
        is_known_collapse |= regularizer is Regularizer.ISTAR and lam <= KNOWN_COLLAPSE_LAMBDA and not n_runs
    return warnings or ([KNOWN_COLLAPSE] if is_known_collapse else [])


def _has_failed(run: Run) -> bool:
    return no_learning_note(run) is not None or divergence_note(run) is not None
