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
    """Variants of an embedding's vectors judged by a task: its ground truth, how far it is, what came out."""

    __tablename__ = "task_runs"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), index=True)
    queries_id: Mapped[str | None] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), index=True)
    family_id: Mapped[str | None] = mapped_column(String(32), index=True)
    """First task with the same ground truth and settings; null for that task itself. It may be gone: no foreign key."""
    config: Mapped[TaskConfig] = mapped_column(Typed(TaskConfig))
    filename: Mapped[str | None] = mapped_column(String(255))
    """What the user calls the ground truth; null where there is no file."""
    truth_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    """The ground truth as JSON lines: see ``isoscope.files.ground_truth``."""
    preview: Mapped[TruthPreview | None] = mapped_column(Typed(TruthPreview))
    status: Mapped[TaskStatus] = mapped_column(default=TaskStatus.DRAFT, index=True)
    done: Mapped[int] = mapped_column(default=0)
    total: Mapped[int | None]
    """Variants judged so far, and to be judged."""
    judged: Mapped[list[ScoreSoFar] | None] = mapped_column(Typed(list[ScoreSoFar]))
    """Their scores as they come, begun anew with each attempt and gone with the last: read ``so_far``."""
    attempts: Mapped[int] = mapped_column(default=0)
    error: Mapped[str | None] = mapped_column(Text)
    notes: Mapped[list[str] | None]
    """What was left out, in sentences."""
    results: Mapped[TaskResults | None] = mapped_column(Typed(TaskResults))
    maps: Mapped[TaskMaps | None] = mapped_column(Typed(TaskMaps))
    chosen_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    smallest_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    """The maps of these variants, as safetensors."""
    created_at: Mapped[datetime] = mapped_column(default=utcnow, index=True)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    @property
    def so_far(self) -> list[ScoreSoFar]:
        """The scores of the variants judged so far, while it runs: what was interrupted has none."""
        return self.judged or [] if self.status is TaskStatus.RUNNING else []
