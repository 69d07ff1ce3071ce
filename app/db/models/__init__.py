"""The rows that pages show. The job engine's own tables live elsewhere and are never read here."""

from app.db.models.attempts import Attempt
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
from app.db.models.experiments import Dataset, DryRun, Experiment, overall
from app.db.models.runs import DEFAULT_PRIORITY, Run, RunFigure, Step, Worker
from app.db.models.states import (
    FINAL,
    RETRIED,
    UNFINISHED,
    UNFINISHED_ENCODING,
    AttemptOutcome,
    DatasetOrigin,
    EmbeddingOrigin,
    EmbeddingStatus,
    EncodingStatus,
    ExperimentOrigin,
    FailureCause,
    FileRole,
    MeasurementStatus,
    Phase,
    Pooling,
    ResultStatus,
    RunStatus,
)
from app.db.models.views import View

__all__ = [
    "DEFAULT_PRIORITY",
    "FINAL",
    "RETRIED",
    "UNFINISHED",
    "UNFINISHED_ENCODING",
    "Attempt",
    "AttemptOutcome",
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
    "ExperimentOrigin",
    "FailureCause",
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
    "View",
    "Worker",
    "ZetaCurve",
    "overall",
]
