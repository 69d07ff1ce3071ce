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
from app.db.models.experiments import Dataset, DryRun, Experiment, overall
from app.db.models.runs import DEFAULT_PRIORITY, Run, RunFigure, Step, Worker
from app.db.models.sealed import Opening, SealedScore
from app.db.models.states import (
    FINAL,
    RETRIED,
    UNFINISHED,
    UNFINISHED_ENCODING,
    ChoiceKind,
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
    "Base",
    "ChoiceKind",
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
    "Opening",
    "Phase",
    "Pooling",
    "PostProcessing",
    "ResultStatus",
    "Run",
    "RunFigure",
    "RunStatus",
    "SealedScore",
    "Step",
    "StoredFile",
    "View",
    "Worker",
    "ZetaCurve",
    "overall",
]
