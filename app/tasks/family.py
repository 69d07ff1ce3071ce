"""Tasks of one family: the same ground truth, split and settings on several embeddings of the same rows."""

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import or_, select
from sqlalchemy.orm import defer, lazyload

from app.context import Context
from app.db.models import Embedding, Pooling, TaskRun, TaskStatus
from app.db.task import JudgedVariant, TaskResults
from isoscope.rank_relation import ScoredEmbedding


class FamilyMember(NamedTuple):
    """An embedding judged by the task of a family: its vectors as they are, and the variant that was chosen."""

    task_id: str
    embedding_id: str
    name: str
    series: str | None
    """Key shared by the layers of an encoding and pooling, or of a file; None if it is not a layer."""
    layer: int | None
    pooling: Pooling | None
    status: TaskStatus
    error: str | None
    as_it_is: JudgedVariant | None
    """None until it is judged, like the next two."""
    chosen: JudgedVariant | None
    report: int | None
    """Number of units that the scores are on. It depends on the exact copies among the vectors."""


def read_family(context: Context, task: TaskRun) -> list[FamilyMember]:
    """Return the newest task of each embedding in a task's family: layers in order, then the oldest first.

    A task without results gives way to an earlier task with results.
    """
    key = task.family_id or task.id
    query = select(TaskRun, Embedding).join(Embedding, Embedding.id == TaskRun.embedding_id)
    query = query.where(or_(TaskRun.id == key, TaskRun.family_id == key), Embedding.trashed_at.is_(None))
    deferred_columns = TaskRun.maps, TaskRun.preview, TaskRun.judged, Embedding.inspection
    load_options = *map(defer, deferred_columns), lazyload(Embedding.tags)
    with context.sessions() as session:
        rows = session.execute(query.order_by(TaskRun.created_at, TaskRun.id).options(*load_options)).all()
    members: dict[str, FamilyMember] = {}
    for task_run, embedding in rows:
        earlier = members.get(embedding.id)
        if earlier is None or earlier.as_it_is is None or task_run.results is not None:
            results: TaskResults | None = task_run.results
            members[embedding.id] = FamilyMember(
                task_id=task_run.id,
                embedding_id=embedding.id,
                name=embedding.name,
                series=embedding.series,
                layer=embedding.layer,
                pooling=embedding.pooling,
                status=task_run.status,
                error=task_run.error,
                as_it_is=None if results is None else results.variants[results.baseline],
                chosen=None if results is None else results.variants[results.chosen],
                report=None if results is None else results.parts.report,
            )
    series_order: dict[str | None, int] = {}
    for member in members.values():
        series_order.setdefault(member.series, len(series_order))
    return sorted(
        members.values(), key=lambda member: (member.series is None, series_order[member.series], member.layer or 0)
    )


def scored_embeddings(members: Iterable[FamilyMember]) -> list[ScoredEmbedding]:
    """Return isotropy and score of a family's judged embeddings, as they are."""
    return [
        ScoredEmbedding(member.name, member.as_it_is.isoscore, member.as_it_is.report.value, member.series)
        for member in members
        if member.as_it_is is not None
    ]
