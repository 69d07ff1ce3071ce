"""How far a row is, and where it comes from."""

from enum import StrEnum


class EmbeddingStatus(StrEnum):
    """An embedding's way: made by a worker unless uploaded, inspected, committed by the user, measured."""

    MAKING = "making"
    INSPECTING = "inspecting"
    DRAFT = "draft"
    MEASURING = "measuring"
    READY = "ready"
    FAILED = "failed"


class EmbeddingOrigin(StrEnum):
    """Whether the vectors were uploaded, or made here: of other vectors, as a part of them, or of texts."""

    UPLOAD = "upload"
    POSTPROCESSED = "postprocessed"
    SELECTED = "selected"
    ENCODED = "encoded"


class Pooling(StrEnum):
    """Which vector of a layer stands for a text: that of its first token, the mean, that of its last token."""

    FIRST = "first"
    MEAN = "mean"
    LAST = "last"


class RowsBy(StrEnum):
    """How the same rows of two embeddings are found: by name, by their places in their files, in order."""

    NAME = "name"
    POSITION = "place"
    ORDER = "order"


class FileRole(StrEnum):
    """What a file of an embedding holds: rows of vectors, or the names and labels of all rows."""

    VECTORS = "vectors"
    ANNOTATIONS = "annotations"


class ResultStatus(StrEnum):
    """The way of what is asked for after the report was made: a curve, a method of post-processing."""

    QUEUED = "queued"
    READY = "ready"
    FAILED = "failed"


class EncodingStatus(StrEnum):
    """An encoding's way: a draft until its columns and model are chosen. The last three are final."""

    DRAFT = "draft"
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


UNFINISHED_ENCODING = (EncodingStatus.QUEUED, EncodingStatus.RUNNING)
"""States of an encoding that still waits for a worker, or is at one."""


class TaskStatus(StrEnum):
    """A task run's way: a draft until it is launched. The last three are final."""

    DRAFT = "draft"
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


UNFINISHED_TASK = (TaskStatus.QUEUED, TaskStatus.RUNNING)
"""States of a task run that still waits for a worker, or is at one."""


class ImportStatus(StrEnum):
    """An import's way. One that failed or was cancelled is removing until the rows that it wrote are gone.

    The last three are final.
    """

    QUEUED = "queued"
    RUNNING = "running"
    REMOVING = "removing"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


UNFINISHED_IMPORT = (ImportStatus.QUEUED, ImportStatus.RUNNING)
"""States of an import that still waits for a worker, or is at one."""


class MeasurementStatus(StrEnum):
    """Whether a measure has a value here. Where it has none, the reason is stored instead of NaN."""

    OK = "ok"
    UNDEFINED = "undefined"


class RunStatus(StrEnum):
    """A run's way. A paused one goes on when somebody says so; a streaming one is written by a user's own script.

    The last four are final; pruned is what the search for the best lambda gave up because others did better.
    """

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    STREAMING = "streaming"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PRUNED = "pruned"

    @property
    def final(self) -> bool:
        """Whether nothing happens to the run any more by itself."""
        return self in FINAL


UNFINISHED = (RunStatus.QUEUED, RunStatus.RUNNING)
"""States of a run that still waits for a worker, or is at one."""

RETRIED = (RunStatus.FAILED, RunStatus.CANCELLED)
"""States of a run that can be tried again."""

FINAL = (RunStatus.FINISHED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.PRUNED)


class FailureCause(StrEnum):
    """Why a run failed, as far as whoever saw it fail knows for sure."""

    MEMORY = "memory"
    MODEL = "model"
    COLUMN = "column"
    NOT_A_NUMBER = "not_a_number"
    KILLED = "killed"
    DATABASE = "database"
    DISK = "disk"
    SETTING = "setting"
    UNSPECIFIED = "other"


class AttemptOutcome(StrEnum):
    """How one attempt at a run ended."""

    FINISHED = "finished"
    FAILED = "failed"
    PRUNED = "pruned"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    KILLED = "killed"
    """Its process was ended by a signal, or ended itself without a word."""
    WORKER_LOST = "worker_lost"
    WORKER_STOPPED = "worker_stopped"
    DATABASE_AWAY = "database_away"
    DISK_FULL = "disk_full"


class Phase(StrEnum):
    """What a running run is doing."""

    LOADING = "loading"
    SHRINKAGE = "shrinkage"
    TRAINING = "training"
    EVALUATING = "evaluating"


class DatasetOrigin(StrEnum):
    """Where a data set's rows come from."""

    UPLOAD = "upload"
    SAMPLE = "sample"
    HUB = "hub"
    BY_NAME = "named"
    """A name alone: the rows are where its runs were trained, on another Isoscope or in a user's own script."""


class ExperimentOrigin(StrEnum):
    """Whether an experiment's runs were launched here, brought from another Isoscope, or logged by a user's script."""

    LAUNCHED = "launched"
    IMPORTED = "imported"
    LOGGED = "logged"


class ChoiceKind(StrEnum):
    """What was chosen before test scores were opened: all seeds of a setting, or one run."""

    SETTING = "setting"
    RUN = "run"


class Split(StrEnum):
    """Rows of a data set that a run is evaluated on: validation rows, or sealed test rows."""

    VALIDATION = "validation"
    TEST = "test"
