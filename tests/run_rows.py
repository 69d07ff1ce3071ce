"""Experiments and runs as rows, without a worker."""

from app.db.config import RunConfig, TrainingConfig
from app.db.models import Dataset, DatasetOrigin, Experiment, Run, RunStatus
from app.db.regularizer_options import Regularizer
from app.db.reported_config import ReportedRunConfig

OPTIONS = {"model": "tiny-bert", "text_columns": ["sentence"], "label_column": "label", "label_names": ["0", "1"]}
SHARED = TrainingConfig(**OPTIONS)
PLAIN = RunConfig(**OPTIONS, regularizer=Regularizer.NONE, lam=0, seed=0)
"""Configurations of rows of which only other columns matter."""


def reported(run, **settings):
    """The configuration that a script would have reported of a run."""
    known = {name: getattr(run.config, name) for name in ("model", "task", "metric", "regularizer", "lam", "seed")}
    return ReportedRunConfig(logged=True, **known, **settings)


def run_row(lam=1.0, seed=0, *, regularizer=Regularizer.ISTAR, zeta=0.2, config=None, **columns):
    """A finished run that did so well; lambda 0 is the baseline. ``config`` has further settings."""
    chosen = regularizer if lam else Regularizer.NONE
    settings = RunConfig(**OPTIONS | (config or {}), regularizer=chosen, lam=lam, zeta=zeta, seed=seed)
    plain = {"status": RunStatus.FINISHED, "performance": 0.5, "isoscore_star": 0.25}
    return Run(config=settings, regularizer=chosen, lam=lam, zeta=zeta, seed=seed, **plain | columns)


def add_experiment(context, *runs, name="sweep", dataset="Tiny", grid=None, config=None, **columns):
    """An experiment with these runs in this order, on a data set of its own; its id."""
    for position, run in enumerate(runs):
        run.position = position
    rows = Dataset(name=dataset, origin=DatasetOrigin.UPLOAD, n_train=100, n_validation=40, columns=[])
    settings = TrainingConfig(**OPTIONS | (config or {}))
    experiment = Experiment(name=name, dataset=rows, config=settings, grid=grid or {}, runs=list(runs), **columns)
    with context.sessions.begin() as session:
        session.add(experiment)
    return experiment.id
