"""The decision of an embedding: the newest task that judged its vectors, whose conclusion heads the report."""

from sqlalchemy import select

from app.context import Context
from app.db.models import UNFINISHED_TASK, TaskRun, TaskStatus
from isotropy.catalog import TruthKind


def find_deciding_task(context: Context, embedding_id: str) -> TaskRun | None:
    """Return the newest task of an embedding with ground truth that has finished; else one that waits or runs."""
    newest = select(TaskRun.id, TaskRun.status, TaskRun.config).where(TaskRun.embedding_id == embedding_id)
    with context.sessions() as session:
        rows = session.execute(newest.order_by(TaskRun.created_at.desc(), TaskRun.id)).all()
    judging = [(task_id, status) for task_id, status, config in rows if config.kind is not TruthKind.COMPRESSION]
    for states in ((TaskStatus.FINISHED,), UNFINISHED_TASK):
        for task_id, status in judging:
            if status in states:
                return context.get(TaskRun, task_id)
    return None
