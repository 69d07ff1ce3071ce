"""Warnings before launch about λ at which a regularizer outweighs the task."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import load_only

from app.context import Context
from app.core.evidence import COLLAPSED_SHARE, MIN_COLLAPSED_RUNS
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

    Runs of experiments with a failed baseline do not count: λ is not the reason there.
    """
    planned = sorted({(run.regularizer, run.lam) for run in runs if run.lam})
    models, lambdas = {run.model for run in runs}, {lam for _, lam in planned}
    query = select(Run).where(Run.status == RunStatus.FINISHED, Run.model.in_(models), Run.lam.in_({0.0, *lambdas}))
    columns = Run.config, Run.experiment_id, Run.regularizer, Run.lam, Run.status, Run.performance, Run.learning
    newest = query.options(load_only(*columns)).order_by(Run.finished_at.desc()).limit(MAX_EARLIER_RUNS)
    has_failed = {
        run: no_learning_note(run) is not None or divergence_note(run) is not None for run in context.scalars(newest)
    }
    without_baseline = {run.experiment_id for run, failed in has_failed.items() if failed and not run.lam}
    failed_by_setting: dict[tuple[Regularizer, float], list[bool]] = {}
    for run, failed in has_failed.items():
        if run.experiment_id not in without_baseline:
            failed_by_setting.setdefault((run.regularizer, run.lam), []).append(failed)
    warnings, is_known_collapse = [], False
    for regularizer, lam in planned:
        failed_flags = failed_by_setting.get((regularizer, lam), [])
        n_failed, n_runs = sum(failed_flags), len(failed_flags)
        if n_failed >= max(MIN_COLLAPSED_RUNS, COLLAPSED_SHARE * n_runs):
            warnings.append(
                f"Caution: {REGULARIZER_NAMES[regularizer]} at λ = {short(lam)} learned nothing or diverged in "
                f"{n_failed} of {n_runs} earlier runs. Choose a value nearer to 0."
            )
        is_known_collapse |= regularizer is Regularizer.ISTAR and lam <= KNOWN_COLLAPSE_LAMBDA and not n_runs
    return warnings or ([KNOWN_COLLAPSE] if is_known_collapse else [])
