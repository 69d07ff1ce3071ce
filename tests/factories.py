"""Rows of runs, experiments, data sets and embeddings, without a worker or a file to read."""

from collections.abc import Mapping
from io import BytesIO
from typing import Any

from sqlalchemy import select

from app.context import Context
from app.db import models
from app.db.config import RunConfig, TrainingConfig
from app.db.reported_config import ReportedRunConfig
from app.db.types import new_id
from isotropy.catalog import Regularizer

OPTIONS: dict[str, Any] = {
    "model": "tiny-bert", "text_columns": ["sentence"], "label_column": "label", "label_names": ["0", "1"],
}  # fmt: skip
SHARED = TrainingConfig(**OPTIONS)
PLAIN = RunConfig(**OPTIONS, regularizer=Regularizer.NONE, lam=0, seed=0)


def reported(run: models.Run, **settings: Any) -> ReportedRunConfig:
    values = {name: getattr(run.config, name) for name in ("model", "task", "metric", "regularizer", "lam", "seed")}
    return ReportedRunConfig(logged=True, **values, **settings)


def run_row(lam=1.0, seed=0, *, regularizer=Regularizer.ISTAR, zeta=0.2, config=None, **columns) -> models.Run:
    """Return a finished run; lambda 0 is the baseline. ``config`` overrides options."""
    chosen = regularizer if lam else Regularizer.NONE
    settings = RunConfig(**OPTIONS | dict(config or ()), regularizer=chosen, lam=lam, zeta=zeta, seed=seed)
    plain = {"status": models.RunStatus.FINISHED, "performance": 0.5, "isoscore_star": 0.25, "seed_round": 1}
    return models.Run(config=settings, regularizer=chosen, lam=lam, zeta=zeta, seed=seed, **plain | columns)


def dataset_row(name: str = "Tiny", **columns: Any) -> models.Dataset:
    plain = {"origin": models.DatasetOrigin.UPLOAD, "n_train": 100, "n_validation": 40, "columns": []}
    return models.Dataset(name=name, **plain | columns)


def experiment_row(*runs, name="sweep", dataset=None, grid=None, config=None, **columns) -> models.Experiment:
    for position, run in enumerate(runs):
        run.position = position
    settings = TrainingConfig(**OPTIONS | dict(config or ()))
    rows = dataset or dataset_row()
    return models.Experiment(
        name=name, dataset=rows, config=settings, grid=dict(grid or ()), runs=list(runs), **columns
    )


def add_experiment(context: Context, *runs: models.Run, dataset: str = "Tiny", **columns: Any) -> str:
    experiment = experiment_row(*runs, dataset=dataset_row(dataset), **columns)
    with context.sessions.begin() as session:
        session.add(experiment)
    return experiment.id


Value = float | tuple[float | None, float | None] | None


def add_with_activations(context: Context, experiment: models.Experiment) -> str:
    with context.sessions.begin() as session:
        session.add(experiment)
        session.flush()
        session.add_all(
            models.RunFigure(run_id=run.id, slug="activation", data={"n": 40, "mean": [0.5, -1.0], "std": [0.25, 0.5]})
            for run in experiment.runs
            if run.status is models.RunStatus.FINISHED
        )
    return experiment.id


def measurement(measure: str, value: Value, n: int = 400) -> models.Measurement:
    number, se = value if isinstance(value, tuple) else (value, None)
    status = models.MeasurementStatus.UNDEFINED if number is None else models.MeasurementStatus.OK
    reason = "All points are equal." if number is None else None
    resampled = None if se is None else {"parts": [se / 10**0.5] * 10, "at": {}}
    return models.Measurement(
        measure=measure, status=status, value=number, se=se, resampled=resampled, reason=reason, n=n
    )


def embedding(name: str = "cloud", measured: Mapping[str, Value] | None = None, **columns: Any) -> models.Embedding:
    inspection: dict[str, Any] = {"parts": [], "numeric_columns": [], "annotations": [], "warnings": []}
    selection = {"vectors": "", "names": None, "labels": None, "transpose": False}
    file = {"id": new_id(), "filename": "cloud.npy", "format": "npy", "inspection": inspection, "selection": selection}
    values = file | {"status": models.EmbeddingStatus.READY, "n": 400, "d": 8} | columns
    measurements = [measurement(slug, value, values["n"] or 0) for slug, value in (measured or {}).items()]
    return models.Embedding(name=name, measurements=measurements, **values)


def add_embedding(context, name="cloud", values_by_measure=None, tags=(), contents=(), **columns) -> str:
    row = embedding(name, values_by_measure, **columns)
    row.tags = [models.EmbeddingTag(tag=tag) for tag in tags]
    with context.sessions.begin() as session:
        for position, content in enumerate(contents):
            digest = store(context, content)
            session.merge(models.StoredFile(sha256=digest, size_bytes=len(content)))
            row.files.append(models.EmbeddingFile(position=position, filename="cloud.npy", file_sha256=digest))
        session.flush()
        session.add(row)
    return row.id


def add_copy(context: Context, embedding_id: str) -> str:
    copy = new_id()
    with context.sessions.begin() as session:
        session.add(models.Embedding(**_columns(session.get_one(models.Embedding, embedding_id)) | {"id": copy}))
        session.flush()
        for table in (models.EmbeddingFile, models.Measurement, models.FigureData, models.FigureFile):
            for row in session.scalars(select(table).where(table.embedding_id == embedding_id)).unique():
                session.add(table(**_columns(row) | {"embedding_id": copy}))
    return copy


def _columns(row: models.Base) -> dict[str, Any]:
    return {column.key: getattr(row, column.key) for column in row.__mapper__.column_attrs}


def add_encoding(context: Context) -> str:
    digest = store(context, b"texts")
    encoding = models.Encoding(name="e", filename="e.txt", file_sha256=digest, n_texts=1, columns=[])
    with context.sessions.begin() as session:
        session.merge(models.StoredFile(sha256=digest, size_bytes=5))
        session.flush()
        session.add(encoding)
    return encoding.id


def store(context: Context, content: bytes) -> str:
    return context.storage.write(BytesIO(content), len(content)).sha256
