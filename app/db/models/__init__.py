"""Rows and their states. The job engine has its own tables."""

from app.db.models.access import AccessScope, AccessToken, Activity, LoginSession
from app.db.models.base import MAX_TAG_CHARACTERS, MAX_TAGS, Base, Described, Tagged
from app.db.models.embeddings import (
    FULL_FINDINGS,
    Alignment,
    Embedding,
    EmbeddingFile,
    EmbeddingTag,
    FigureData,
    FigureFile,
    Lookup,
    MapLayout,
    Measurement,
    PostProcessing,
    StoredFile,
    ZetaCurve,
)
from app.db.models.encodings import Encoding, Qrels
from app.db.models.experiments import Dataset, Experiment, ExperimentTag, Import, Opening, SealedScore, status_of_runs
from app.db.models.runs import DEFAULT_PRIORITY, Attempt, Run, RunFigure, RunPredictions, RunTag, Step, Worker
from app.db.models.tasks import TaskRun
from app.db.states import (
    FINAL,
    RETRIABLE,
    UNFINISHED,
    UNFINISHED_ENCODING,
    UNFINISHED_IMPORT,
    UNFINISHED_TASK,
    AttemptOutcome,
    ChoiceKind,
    DatasetOrigin,
    EmbeddingOrigin,
    EmbeddingStatus,
    EncodingStatus,
    ExperimentOrigin,
    FailureCause,
    FileRole,
    ImportStatus,
    MeasurementStatus,
    Phase,
    Pooling,
    ResultStatus,
    RowsBy,
    RunStatus,
    Split,
    TaskStatus,
)
