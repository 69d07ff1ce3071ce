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
    """Whether the vectors were uploaded, or made here: of other vectors, or of texts."""

    UPLOAD = "upload"
    POSTPROCESSED = "postprocessed"
    ENCODED = "encoded"


class Pooling(StrEnum):
    """Which vector of a layer stands for a text: that of its first token, the mean, that of its last token."""

    FIRST = "first"
    MEAN = "mean"
    LAST = "last"


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


class MeasurementStatus(StrEnum):
    """Whether a measure has a value here. Where it has none, the reason is stored instead of NaN."""

    OK = "ok"
    UNDEFINED = "undefined"


class RunStatus(StrEnum):
    """A run's way. ``finished``, ``failed`` and ``cancelled`` are final."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether nothing happens to the run any more."""
        return self not in UNFINISHED


UNFINISHED = (RunStatus.QUEUED, RunStatus.RUNNING)
"""States of a run that still waits for a worker, or is at one."""


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
