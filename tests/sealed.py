"""An experiment whose sealed test scores equal no other number in it."""

import numpy as np

from app.db.models import Dataset, Experiment, SealedScore, Split
from app.db.predictions import Predictions, write_predictions
from tests.factories import add_experiment, run_row

ROWS = "a" * 64
PLANTED = 0.7310585786
"""The score of the baseline's first seed. Others add ``STEP``, so all start with 0.73105."""
STEP = 1e-6
DIGITS = "0.73105"


def add_sealed(context, *runs, n=500, rows=ROWS, scores=None, **columns):
    runs = runs or [run_row(lam, seed, performance=0.5 + lam / 10 + seed / 100) for lam in (0, 1) for seed in range(3)]
    experiment_id = add_experiment(context, *runs, **columns)
    with context.sessions.begin() as session:
        experiment = session.get(Experiment, experiment_id)
        session.get(Dataset, experiment.dataset_id).n_test = n
        for i, run in enumerate(experiment.runs):
            score = PLANTED + i * STEP if scores is None else scores[i]
            session.add(
                SealedScore(
                    run_id=run.id, metrics={"accuracy": score, "f1": None},
                    reasons={"f1": "No test row has the label '1', which F1 looks for."}, n=n, rows_sha256=rows,
                )
            )  # fmt: skip
    return experiment_id


def add_predictions(context, experiment_id, n=4):
    right = np.arange(n) % 2
    answers = np.append(right[:-1], 1 - right[-1])
    with context.sessions.begin() as session:
        for run in session.get(Experiment, experiment_id).runs:
            write_predictions(session, run.id, Split.TEST, Predictions(np.arange(n), right, answers))


def run_ids(context, experiment_id):
    with context.sessions() as session:
        return [run.id for run in session.get(Experiment, experiment_id).runs]
