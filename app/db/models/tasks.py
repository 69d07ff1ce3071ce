"""Tasks that judge the vectors of an embedding."""

from datetime import datetime

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base
from app.db.states import TaskStatus
from app.db.task import ScoreSoFar, TaskConfig, TaskMaps, TaskResults
from app.db.types import Typed, new_id, utcnow
from isoscope.files.ground_truth import TruthPreview


class TaskRun(Base):
    """A task on an embedding's vectors: ground truth, progress, results."""

    __tablename__ = "task_runs"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), index=True)
    queries_id: Mapped[str | None] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), index=True)
    # First task with the same ground truth and settings; null for that task. No foreign key, because it may be deleted.
    family_id: Mapped[str | None] = mapped_column(String(32), index=True)
    config: Mapped[TaskConfig] = mapped_column(Typed(TaskConfig))
    # The user's name of the ground truth file, if any.
    filename: Mapped[str | None] = mapped_column(String(255))
    # The ground truth as JSON lines: see isoscope.files.ground_truth.
    truth_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    preview: Mapped[TruthPreview | None] = mapped_column(Typed(TruthPreview))
    status: Mapped[TaskStatus] = mapped_column(default=TaskStatus.DRAFT, index=True)
    done: Mapped[int] = mapped_column(default=0)
    # Number of variants; ``done`` counts those evaluated so far.
    total: Mapped[int | None]
    # Scores of the current attempt, null once it ends. Read ``so_far``.
    judged: Mapped[list[ScoreSoFar] | None] = mapped_column(Typed(list[ScoreSoFar]))
    attempts: Mapped[int] = mapped_column(default=0)
    error: Mapped[str | None] = mapped_column(Text)
    # Sentences about what was left out.
    notes: Mapped[list[str] | None]
    results: Mapped[TaskResults | None] = mapped_column(Typed(TaskResults))
    maps: Mapped[TaskMaps | None] = mapped_column(Typed(TaskMaps))
    # The maps of the chosen and the smallest variant, as safetensors.
    chosen_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    smallest_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    # The map to which the cutoffs belong.
    cutoff_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    created_at: Mapped[datetime] = mapped_column(default=utcnow, index=True)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    @property
    def family_key(self) -> str:
        """Return an id shared by tasks with the same ground truth and settings."""
        return self.family_id or self.id

    @property
    def so_far(self) -> list[ScoreSoFar]:
        """Return the scores of the variants evaluated so far, while it runs."""
        return self.judged or [] if self.status is TaskStatus.RUNNING else []
