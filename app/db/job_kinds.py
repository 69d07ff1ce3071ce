"""The kinds of jobs, one record each: table, waiting states, function, and wording on pages.

Queue, executor, reconciler and pages read these records. To add one, see docs/contributing/job.md.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from app.db import models
from app.db.models.runs import QUEUE_ORDER

# Of jobs that a user waits for. They go before others, which may take hours.
INTERACTIVE_PRIORITY = 10
# Of jobs for which no page waits. They yield the processor and their queue to all others.
BACKGROUND_PRIORITY = 1000


class Queue(StrEnum):
    """Queues of jobs. A worker limits the number of running jobs per queue."""

    # Jobs that run a model, as many at once as a device holds. Each waits in its row until a free worker enqueues it.
    GPU = "gpu"
    # Reports and the jobs that they need, which never wait for a model.
    MEASURE = "measure"
    # Jobs for which a user waits on the page, so they do not queue behind reports.
    LAB = "lab"
    # Jobs that may take minutes and would not end sooner if several ran at once.
    IMPORTS = "imports"


@dataclass(frozen=True)
class JobKind:
    """A kind of job that a worker does on a row."""

    # Name in the engine, logs and workers' rows.
    name: str
    queue: Queue
    # Any: the tables share ``status``, ``attempts`` and ``error``, but each has its own states.
    table: Any
    # States in which a row waits. While it is in one, workers enqueue the job again if it got lost.
    waiting: tuple[StrEnum, ...]
    # State of a row after the last attempt at its job failed.
    failed: StrEnum
    # ``module:function``, called with row id, settings and device. The function returns follow-up jobs.
    work: str
    # What the worker does, in words for the queue page.
    activity: str
    # First part of the path of the row's page.
    pages: str = ""
    # The lowest goes first.
    priority: int = models.DEFAULT_PRIORITY
    # Whether the row's ``finished_at`` is set when the last attempt fails.
    sets_finished_at: bool = False
    # Column with the time at which a row was queued; None for ``created_at``.
    queued_at: Any = None
    # Columns that order waiting rows: priority, queueing time, tie-breakers. Empty: the row queued first goes first.
    order: tuple[Any, ...] = ()

    @property
    def waits_in_row(self) -> bool:
        """Return whether the job waits in its row until a worker enqueues it."""
        return self.queue is Queue.GPU


INSPECT = JobKind(
    "inspect", Queue.MEASURE, models.Embedding, (models.EmbeddingStatus.INSPECTING,), models.EmbeddingStatus.FAILED,
    work="workers.embeddings.measure:inspect_embedding", activity="reads an upload", pages="embeddings",
)  # fmt: skip
MEASURE = JobKind(
    "measure", Queue.MEASURE, models.Embedding, (models.EmbeddingStatus.MEASURING,), models.EmbeddingStatus.FAILED,
    work="workers.embeddings.measure:measure_embedding", activity="measures an embedding", pages="embeddings",
)  # fmt: skip
CURVE = JobKind(
    "curve", Queue.MEASURE, models.ZetaCurve, (models.ResultStatus.QUEUED,), models.ResultStatus.FAILED,
    work="workers.embeddings.zeta_curves:compute_curve", activity="computes a shrinkage curve",
)  # fmt: skip
POSTPROCESS = JobKind(
    "postprocess", Queue.LAB, models.PostProcessing, (models.ResultStatus.QUEUED,), models.ResultStatus.FAILED,
    work="workers.postprocess:post_process", activity="tries a post-processing", priority=INTERACTIVE_PRIORITY,
)  # fmt: skip
LOOKUP = JobKind(
    "lookup", Queue.LAB, models.Lookup, (models.ResultStatus.QUEUED,), models.ResultStatus.FAILED,
    work="workers.embeddings.neighbors:look_up", activity="looks up a row", priority=INTERACTIVE_PRIORITY,
)  # fmt: skip
LAYOUT = JobKind(
    # In the imports queue, so that layouts never delay a report.
    "layout", Queue.IMPORTS, models.MapLayout, (models.ResultStatus.QUEUED,), models.ResultStatus.FAILED,
    work="workers.embeddings.map_layout:add_layout", activity="lays out a map", priority=BACKGROUND_PRIORITY,
)  # fmt: skip
ALIGN = JobKind(
    # Not interactive, because a series enqueues dozens at once, which must not delay the lab.
    "align", Queue.LAB, models.Alignment, (models.ResultStatus.QUEUED,), models.ResultStatus.FAILED,
    work="workers.embeddings.alignments:align", activity="compares two embeddings of the same rows",
)  # fmt: skip
MAKE = JobKind(
    "make", Queue.MEASURE, models.Embedding, (models.EmbeddingStatus.MAKING,), models.EmbeddingStatus.FAILED,
    work="workers.postprocess:make_embedding", activity="makes an embedding", pages="embeddings",
)  # fmt: skip
JUDGE = JobKind(
    "judge", Queue.MEASURE, models.TaskRun, models.UNFINISHED_TASK, models.TaskStatus.FAILED,
    work="workers.tasks:judge_task", activity="judges vectors by a task", pages="tasks", sets_finished_at=True,
)  # fmt: skip
ENCODE = JobKind(
    "encode", Queue.GPU, models.Encoding, models.UNFINISHED_ENCODING, models.EncodingStatus.FAILED,
    work="workers.embeddings.encoding:encode_texts", activity="encodes texts", pages="encodings",
    priority=INTERACTIVE_PRIORITY, sets_finished_at=True, queued_at=models.Encoding.queued_at,
)  # fmt: skip
IMPORT = JobKind(
    # Its rows are removed before it counts as failed.
    "import", Queue.IMPORTS, models.Import, models.UNFINISHED_IMPORT, models.ImportStatus.REMOVING,
    work="workers.imports.job:import_experiment", activity="imports an experiment", pages="imports",
)  # fmt: skip
# Removes the rows of an import that failed or was cancelled.
DISCARD = JobKind(
    "discard", Queue.IMPORTS, models.Import, (models.ImportStatus.REMOVING,), models.ImportStatus.FAILED,
    work="workers.imports.job:discard_import", activity="removes an import", pages="imports",
)  # fmt: skip
FINETUNE = JobKind(
    "finetune", Queue.GPU, models.Run, models.UNFINISHED, models.RunStatus.FAILED,
    work="workers.training.job:fine_tune", activity="ends a run", sets_finished_at=True, order=QUEUE_ORDER,
)  # fmt: skip

KINDS: dict[str, JobKind] = {
    kind.name: kind
    for kind in (
        INSPECT, MEASURE, CURVE, POSTPROCESS, LOOKUP, LAYOUT, ALIGN, MAKE, JUDGE, ENCODE, IMPORT, DISCARD, FINETUNE,
    )
}  # fmt: skip


@dataclass(frozen=True)
class Job:
    """A job of one kind on one row."""

    kind: JobKind
    row_id: str
    # Priority of the row, None for that of the kind; not part of the job's identity.
    row_priority: int | None = field(default=None, compare=False)

    @property
    def workflow_id(self) -> str:
        return f"{self.kind.name}-{self.row_id}"

    @classmethod
    def parse(cls, workflow_id: str) -> "Job":
        kind, _, row_id = workflow_id.partition("-")
        return cls(KINDS[kind], row_id)

    @property
    def priority(self) -> int:
        return self.kind.priority if self.row_priority is None else self.row_priority
