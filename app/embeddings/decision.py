"""The deciding task of an embedding: the newest that judged its vectors. Its conclusion heads the report."""

from sqlalchemy import case, select
from sqlalchemy.orm import defer

from app.context import Context
from app.db.models import UNFINISHED_TASK, TaskRun, TaskStatus
from app.embeddings.family import WITH_TRUTH
from app.embeddings.service import list_stored_figures


def find_deciding_task(context: Context, embedding_id: str) -> TaskRun | None:
    """Return the newest finished task with ground truth, else the newest that waits or runs; None without either."""
    tasks = select(TaskRun).where(
        TaskRun.embedding_id == embedding_id, TaskRun.status.in_((TaskStatus.FINISHED, *UNFINISHED_TASK)), WITH_TRUTH
    )
    finished_first = case((TaskRun.status == TaskStatus.FINISHED, 0), else_=1)
    newest = tasks.order_by(finished_first, TaskRun.created_at.desc(), TaskRun.id).limit(1)
    with context.sessions() as session:
        return session.scalar(newest.options(*map(defer, (TaskRun.maps, TaskRun.preview, TaskRun.judged))))


def describe_decision(context: Context, embedding_id: str) -> str:
    """Return the conclusion of the deciding task, else the worst finding with its advice, else that all is well."""
    task = find_deciding_task(context, embedding_id)
    if task is not None and task.results is not None:
        return task.results.conclusion
    stored = list_stored_figures(context, embedding_id, {"findings"}).get("findings") or {"findings": []}
    worst = next((finding for finding in stored["findings"] if finding["severity"] != "note"), None)
    return f"{worst['title']}. {worst['advice']}" if worst else "Nothing to mend."
