"""The decision of an embedding: the newest task that judged its vectors, whose conclusion heads the report."""

from sqlalchemy import case, select
from sqlalchemy.orm import defer

from app.context import Context
from app.db.models import UNFINISHED_TASK, TaskRun, TaskStatus
from app.embeddings.family import WITH_TRUTH


def find_deciding_task(context: Context, embedding_id: str) -> TaskRun | None:
    """Return the newest task of an embedding with ground truth that has finished; else one that waits or runs."""
    judging = select(TaskRun).where(
        TaskRun.embedding_id == embedding_id,
        TaskRun.status.in_((TaskStatus.FINISHED, *UNFINISHED_TASK)),
        WITH_TRUTH,
    )
    finished_first = case((TaskRun.status == TaskStatus.FINISHED, 0), else_=1)
    newest = judging.order_by(finished_first, TaskRun.created_at.desc(), TaskRun.id).limit(1)
    with context.sessions() as session:
        return session.scalar(newest.options(*map(defer, (TaskRun.maps, TaskRun.preview, TaskRun.judged))))
