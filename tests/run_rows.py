"""Experiments and runs as rows, without a worker."""

from app.db.config import RunConfig, TrainingConfig
from app.db.models import Dataset, DatasetOrigin, Experiment, Run, RunStatus
from app.db.regularizer_options import Regularizer

OPTIONS = {"model": "tiny-bert", "text_columns": ["sentence"], "label_column": "label", "label_names": ["0", "1"]}


def run_row(lam=1.0, seed=0, *, regularizer=Regularizer.ISTAR, zeta=0.2, config=None, **columns):
    """A finished run that did so well; lambda 0 is the baseline. ``config`` has further settings."""
    chosen = regularizer if lam else Regularizer.NONE
    settings = RunConfig(**OPTIONS | (config or {}), regularizer=chosen, lam=lam, zeta=zeta, seed=seed)
    plain = {"status": RunStatus.FINISHED, "performance": 0.5, "isoscore_star": 0.25}
    return Run(
        config=settings.model_dump(mode="json"), regularizer=chosen, lam=lam, zeta=zeta, seed=seed, **plain | columns
    )


def add_experiment(context, *runs, name="sweep", dataset="Tiny", grid=None, config=None, **columns):
    """An experiment with these runs in this order, on a data set of its own; its id."""
    for position, run in enumerate(runs):
        run.position = position
    rows = Dataset(name=dataset, origin=DatasetOrigin.UPLOAD, n_train=100, n_validation=40, columns=[])
    settings = TrainingConfig(**OPTIONS | (config or {})).model_dump(mode="json")
    experiment = Experiment(name=name, dataset=rows, config=settings, grid=grid or {}, runs=list(runs), **columns)
    with context.sessions.begin() as session:
        session.add(experiment)
    return experiment.id
