"""States and origins of rows."""

from enum import StrEnum


class EmbeddingStatus(StrEnum):
    """States of an embedding: a worker makes it unless it is uploaded, inspects it, and measures it when committed."""

    MAKING = "making"
    INSPECTING = "inspecting"
    DRAFT = "draft"  # inspected, and waiting for the user to commit it
    MEASURING = "measuring"
    READY = "ready"
    FAILED = "failed"


class EmbeddingOrigin(StrEnum):
    """Origins of an embedding."""

    UPLOAD = "upload"
    POSTPROCESSED = "postprocessed"
    SELECTED = "selected"
    ENCODED = "encoded"


class Pooling(StrEnum):
    """What the vector of a text is: that of its first token, the mean of all tokens, or that of its last token."""

    FIRST = "first"
    MEAN = "mean"
    LAST = "last"


class RowsBy(StrEnum):
    """How rows of two embeddings are matched: by name, by position in their files, or in the order of measured rows."""

    NAME = "name"
    POSITION = "place"
    ORDER = "order"


class FileRole(StrEnum):
    """Contents of a file of an embedding."""

    VECTORS = "vectors"
    ANNOTATIONS = "annotations"


class ResultStatus(StrEnum):
    """States of a result that a job computes on request, such as a curve."""

    QUEUED = "queued"
    READY = "ready"
    FAILED = "failed"


class EncodingStatus(StrEnum):
    """States of an encoding: a draft until its columns and model are chosen. The last three are final."""

    DRAFT = "draft"
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


UNFINISHED_ENCODING = (EncodingStatus.QUEUED, EncodingStatus.RUNNING)


class TaskStatus(StrEnum):
    """States of a task run: a draft until it is launched. The last three are final."""

    DRAFT = "draft"
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


UNFINISHED_TASK = (TaskStatus.QUEUED, TaskStatus.RUNNING)


class ImportStatus(StrEnum):
    """States of an import. A failed or cancelled one removes its rows first. The last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    REMOVING = "removing"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


UNFINISHED_IMPORT = (ImportStatus.QUEUED, ImportStatus.RUNNING)


class MeasurementStatus(StrEnum):
    """Whether a measure has a value. If it is undefined, the reason is stored instead of NaN."""

    OK = "ok"
    UNDEFINED = "undefined"


class RunStatus(StrEnum):
    """States of a run. A paused one waits to be resumed; a streaming one is written by a user's own script.

    The last four are final. A pruned run was stopped by its search because others did better.
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
        return self in FINAL


# Waiting for a worker, or running.
UNFINISHED = (RunStatus.QUEUED, RunStatus.RUNNING)
RETRIABLE = (RunStatus.FAILED, RunStatus.CANCELLED)
FINAL = (RunStatus.FINISHED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.PRUNED)


class FailureCause(StrEnum):
    """Why a run failed, if that is known for sure."""

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
    # Ended by a signal, or without an error message.
    KILLED = "killed"
    WORKER_LOST = "worker_lost"
    WORKER_STOPPED = "worker_stopped"
    DATABASE_AWAY = "database_away"
    DISK_FULL = "disk_full"


class Phase(StrEnum):
    """Phases of a running run."""

    LOADING = "loading"
    SHRINKAGE = "shrinkage"
    TRAINING = "training"
    EVALUATING = "evaluating"


class DatasetOrigin(StrEnum):
    """Origins of a data set's rows."""

    UPLOAD = "upload"
    SAMPLE = "sample"
    HUB = "hub"
    # Has only a name: a script trained on its rows elsewhere.
    BY_NAME = "named"


class ExperimentOrigin(StrEnum):
    """Whether an experiment's runs were launched here, imported, or logged by a user's script."""

    LAUNCHED = "launched"
    IMPORTED = "imported"
    LOGGED = "logged"


class ChoiceKind(StrEnum):
    """What a user can choose before test scores are opened: a setting with all its seeds, or one run."""

    SETTING = "setting"
    RUN = "run"


class Split(StrEnum):
    """Rows of a data set on which runs are evaluated: validation rows, or test rows, whose scores are sealed."""

    VALIDATION = "validation"
    TEST = "test"
