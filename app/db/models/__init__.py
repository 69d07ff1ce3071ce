"""The rows that pages show. The job engine's own tables live elsewhere and are never read here."""

from app.db.models.base import Base
from app.db.models.embeddings import (
    Embedding,
    EmbeddingFile,
    EmbeddingTag,
    FigureData,
    Measurement,
    PostProcessing,
    StoredFile,
    ZetaCurve,
)
from app.db.models.encodings import Encoding
from app.db.models.experiments import Dataset, DryRun, Experiment
from app.db.models.runs import Run, RunFigure, Step, Worker
from app.db.models.states import (
    UNFINISHED,
    UNFINISHED_ENCODING,
    DatasetOrigin,
    EmbeddingOrigin,
    EmbeddingStatus,
    EncodingStatus,
    FileRole,
    MeasurementStatus,
    Phase,
    Pooling,
    ResultStatus,
    RunStatus,
)

__all__ = [
    "UNFINISHED",
    "UNFINISHED_ENCODING",
    "Base",
    "Dataset",
    "DatasetOrigin",
    "DryRun",
    "Embedding",
    "EmbeddingFile",
    "EmbeddingOrigin",
    "EmbeddingStatus",
    "EmbeddingTag",
    "Encoding",
    "EncodingStatus",
    "Experiment",
    "FigureData",
    "FileRole",
    "Measurement",
    "MeasurementStatus",
    "Phase",
    "Pooling",
    "PostProcessing",
    "ResultStatus",
    "Run",
    "RunFigure",
    "RunStatus",
    "Step",
    "StoredFile",
    "Worker",
    "ZetaCurve",
]
