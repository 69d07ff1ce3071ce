"""The kinds of jobs, each one record: the row it fills, when that row waits for it, what does it, its words on pages.

Queue, executor, reconciler and pages read these records; docs/contributing/job.md adds one.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from app.db import models
from app.db.models.runs import IN_TURN

WAITED_FOR_PRIORITY = 10
"""Somebody looks at the lab and waits; such a job takes seconds, and what else waits may take hours."""


class Queue(StrEnum):
    """What waits for the same place at a worker."""

    GPU = "gpu"
    """What runs a model: one at a time to a device. Waits in the rows, and a worker that is free hands in the next."""
    MEASURE = "measure"
    """Reports and what they need, which never wait for a model."""
    LAB = "lab"
    """Somebody looks at the page: waits for no report either."""
    IMPORTS = "imports"
    """May take minutes and gains nothing from running side by side, so it keeps out of all of these."""


@dataclass(frozen=True)
class JobKind:
    """What a worker does with a row."""

    name: str
    """As the engine, logs and workers' rows have it."""
    queue: Queue
    table: Any
    """Whose row it fills. Any: the tables share ``status``, ``attempts`` and ``error``, each with states of its own."""
    waiting: tuple[StrEnum, ...]
    """States in which a row waits for this job: workers bring it back for as long as the row is in one of them."""
    failed: StrEnum
    """The state of a row whose job was given up."""
    work: str
    """``module:function`` of (row id, settings, device) that returns the jobs that follow; only workers resolve it."""
    doing: str
    """What a worker does, as the page of the queue says it."""
    pages: str = ""
    """Where the row has a page: the first part of that page's address."""
    waited_for: bool = False
    """Whether somebody looks at the page until it is done, so that it goes before all that is not."""
    dated: bool = False
    """Whether its row says when the work ended, in ``finished_at``, once it was given up."""
    queued_at: Any = None
    """The column that says since when a row waits; None for the row's age."""
    order: tuple[Any, ...] = ()
    """Columns in whose order rows wait: priority, since when, and what orders equals; empty for the oldest first."""

    @property
    def in_turn(self) -> bool:
        """Whether the job waits in its row until a worker hands it in; others are handed in when rows are written."""
        return self.queue is Queue.GPU

    @property
    def priority(self) -> int:
        """The turn of a job whose row says nothing of it: lower numbers go first, of equal ones who came first."""
        return WAITED_FOR_PRIORITY if self.waited_for else models.DEFAULT_PRIORITY


INSPECT = JobKind(
    "inspect",
    Queue.MEASURE,
    models.Embedding,
    (models.EmbeddingStatus.INSPECTING,),
    models.EmbeddingStatus.FAILED,
    work="workers.embeddings.inspection:inspect_embedding",
    doing="reads an upload",
    pages="embeddings",
)
MEASURE = JobKind(
    "measure",
    Queue.MEASURE,
    models.Embedding,
    (models.EmbeddingStatus.MEASURING,),
    models.EmbeddingStatus.FAILED,
    work="workers.embeddings.measure:measure_embedding",
    doing="measures an embedding",
    pages="embeddings",
)
CURVE = JobKind(
    "curve",
    Queue.MEASURE,
    models.ZetaCurve,
    (models.ResultStatus.QUEUED,),
    models.ResultStatus.FAILED,
    work="workers.embeddings.zeta_curves:compute_curve",
    doing="computes a shrinkage curve",
)
POSTPROCESS = JobKind(
    "postprocess",
    Queue.LAB,
    models.PostProcessing,
    (models.ResultStatus.QUEUED,),
    models.ResultStatus.FAILED,
    work="workers.postprocess:post_process",
    doing="tries a post-processing",
    waited_for=True,
)
LOOKUP = JobKind(
    "lookup",
    Queue.LAB,
    models.Lookup,
    (models.ResultStatus.QUEUED,),
    models.ResultStatus.FAILED,
    work="workers.embeddings.neighbours:look_up",
    doing="looks up a row",
    waited_for=True,
)
ALIGN = JobKind(
    "align",
    Queue.LAB,
    models.Alignment,
    (models.ResultStatus.QUEUED,),
    models.ResultStatus.FAILED,
    work="workers.embeddings.alignments:align",
    doing="compares two embeddings of the same rows",
    # A series asks for dozens at once, which take seconds each: who waits in the lab goes before them.
)
MAKE = JobKind(
    "make",
    Queue.MEASURE,
    models.Embedding,
    (models.EmbeddingStatus.MAKING,),
    models.EmbeddingStatus.FAILED,
    work="workers.postprocess:make_embedding",
    doing="makes an embedding",
    pages="embeddings",
)
JUDGE = JobKind(
    "judge",
    Queue.MEASURE,
    models.TaskRun,
    models.UNFINISHED_TASK,
    models.TaskStatus.FAILED,
    work="workers.tasks:judge_task",
    doing="judges vectors by a task",
    pages="tasks",
    dated=True,
)
ENCODE = JobKind(
    "encode",
    Queue.GPU,
    models.Encoding,
    models.UNFINISHED_ENCODING,
    models.EncodingStatus.FAILED,
    work="workers.embeddings.encoding:encode_texts",
    doing="encodes texts",
    pages="encodings",
    dated=True,
    queued_at=models.Encoding.queued_at,
)
IMPORT = JobKind(
    "import",
    Queue.IMPORTS,
    models.Import,
    models.UNFINISHED_IMPORT,
    models.ImportStatus.REMOVING,  # what it wrote has to go before it has failed
    work="workers.imports.job:import_experiment",
    doing="imports an experiment",
    pages="imports",
)
DISCARD = JobKind(  # the rows of an import that failed or was cancelled
    "discard",
    Queue.IMPORTS,
    models.Import,
    (models.ImportStatus.REMOVING,),
    models.ImportStatus.FAILED,
    work="workers.imports.job:discard_import",
    doing="removes an import",
    pages="imports",
)
FINETUNE = JobKind(
    "finetune",
    Queue.GPU,
    models.Run,
    models.UNFINISHED,
    models.RunStatus.FAILED,
    work="workers.training.job:fine_tune",
    doing="ends a run",
    dated=True,
    order=IN_TURN,
)

KINDS: dict[str, JobKind] = {
    kind.name: kind
    for kind in (
        INSPECT,
        MEASURE,
        CURVE,
        POSTPROCESS,
        LOOKUP,
        ALIGN,
        MAKE,
        JUDGE,
        ENCODE,
        IMPORT,
        DISCARD,
        FINETUNE,
    )
}


@dataclass(frozen=True)
class Job:
    """One thing to do to one row."""

    kind: JobKind
    row_id: str
    row_priority: int | None = field(default=None, compare=False)
    """What the row says of its turn, where it says anything: no part of what the job is."""

    @property
    def workflow_id(self) -> str:
        """The engine's name of this job."""
        return f"{self.kind.name}-{self.row_id}"

    @classmethod
    def parse(cls, workflow_id: str) -> "Job":
        kind, _, row_id = workflow_id.partition("-")
        return cls(KINDS[kind], row_id)

    @property
    def priority(self) -> int:
        """Lower numbers go first in a queue; of equal ones who came first."""
        return self.kind.priority if self.row_priority is None else self.row_priority
