"""Rows as the services return them, never stored."""

from app.db.models import Run, RunStatus, Step
from app.db.penalty import Regularizer


def run(lam=0.0, seed=0, performance=0.8, isoscore_star=0.2, status=RunStatus.FINISHED, steps=()):
    return Run(
        id=f"{lam}-{seed}",
        regularizer=Regularizer.ISTAR if lam else Regularizer.NONE,
        lam=lam,
        zeta=0.2,
        seed=seed,
        status=status,
        performance=performance,
        isoscore_star=isoscore_star,
        steps=list(steps),
    )


def step(number, task_loss=None, penalty=None, layers=None):
    return Step(step=number, task_loss=task_loss, penalty=penalty, layers=layers)
