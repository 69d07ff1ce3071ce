"""Families of tasks: the same ground truth, split and settings on several embeddings of the same rows."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import func, or_, select
from sqlalchemy.orm import defer, lazyload

from app.context import Context
from app.db.models import UNFINISHED_TASK, Embedding, Pooling, TaskRun, TaskStatus
from app.db.task import JudgedVariant, TaskConfig, TaskResults
from isoscope.leader import RankedEmbedding, describe_leader
from isoscope.rank_relation import ScoredEmbedding
from isotropy.catalog import TruthKind
from isotropy.catalog.calibration import Calibration

WITH_TRUTH = TaskRun.config["kind"].as_string() != TruthKind.COMPRESSION.value
"""The condition that a task has ground truth; compression has none."""


class FamilyMember(NamedTuple):
    """An embedding in a family of tasks, with the scores of its vectors as they are and of its chosen variant."""

    task_id: str
    embedding_id: str
    name: str
    series: str | None
    """Key that layers share if they are of one encoding and pooling, or of one file; None if it is not a layer."""
    layer: int | None
    pooling: Pooling | None
    status: TaskStatus
    error: str | None
    as_it_is: JudgedVariant | None
    """Scores of the vectors without post-processing. Like ``chosen`` and ``report``, None until they are judged."""
    chosen: JudgedVariant | None
    report: int | None
    """Number of units in the report part, on which the scores are. It depends on which vectors are exact copies."""
    calibration: Calibration | None = None


def read_family(context: Context, family_key: str) -> list[FamilyMember]:
    """Return the members of a family: layers in order, then the other embeddings, those of the oldest task first.

    An embedding is listed once: with its newest task that has results, else with its newest task. ``family_key`` is
    the id of the family's first task.
    """
    query = select(TaskRun, Embedding).join(Embedding, Embedding.id == TaskRun.embedding_id)
    query = query.where(or_(TaskRun.id == family_key, TaskRun.family_id == family_key), Embedding.trashed_at.is_(None))
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
                calibration=None if results is None else results.calibration,
            )
    series_order = list(dict.fromkeys(member.series for member in members.values()))
    return sorted(
        members.values(),
        key=lambda member: (member.series is None, series_order.index(member.series), member.layer or 0),
    )


class LayerRanking(NamedTuple):
    """Layers ranked by the family of tasks that covers most of them."""

    config: TaskConfig
    members: list[FamilyMember]  # The judged layers, by descending score on the choose part
    waiting: int  # Number of layers whose task has not finished
    sentence: str


def rank_layers(context: Context, embedding_ids: Sequence[str]) -> LayerRanking | None:
    """Rank layers by the family of tasks that covers most of them; None if no family covers two."""
    family_id = func.coalesce(TaskRun.family_id, TaskRun.id)
    query = select(family_id).where(
        TaskRun.embedding_id.in_(embedding_ids), TaskRun.status.in_((TaskStatus.FINISHED, *UNFINISHED_TASK)), WITH_TRUTH
    )
    n_layers = func.count(TaskRun.embedding_id.distinct())
    largest_first = query.group_by(family_id).order_by(n_layers.desc(), func.max(TaskRun.created_at).desc())
    largest_id = context.scalar(largest_first.limit(1))
    if largest_id is None:
        return None
    layers = [member for member in read_family(context, largest_id) if member.embedding_id in embedding_ids]
    config = context.scalar(select(TaskRun.config).where(TaskRun.id == layers[0].task_id))
    judged = [layer._replace(name=f"Layer {layer.layer}") for layer in layers if layer.chosen is not None]
    waiting = sum(layer.status in UNFINISHED_TASK for layer in layers)
    if config is None or len(judged) + waiting < 2:
        return None
    judged.sort(key=lambda layer: -layer.chosen.choose.value if layer.chosen else 0)
    return LayerRanking(config, judged, waiting, describe_best(judged, config.judged_by))


def describe_best(members: Iterable[FamilyMember], metric: str) -> str:
    """Say which member's chosen variant scores highest, and whether its lead is clear; empty for fewer than two."""
    ranked = [
        RankedEmbedding(
            member.name, variant.choose.value, variant.report.value, variant.report.low, variant.report.high
        )
        for member in members
        if (variant := member.chosen) is not None
    ]
    return describe_leader(ranked, metric) if len(ranked) > 1 else ""


def list_scored_embeddings(members: Iterable[FamilyMember]) -> list[ScoredEmbedding]:
    """Return each judged embedding with its IsoScore and task score, both without post-processing."""
    return [
        ScoredEmbedding(member.name, member.as_it_is.isoscore, member.as_it_is.report.value, member.series)
        for member in members
        if member.as_it_is is not None
    ]
