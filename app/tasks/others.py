"""The same task on other embeddings with the same rows, each with its queries."""

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field
from sqlalchemy import case, func, select
from sqlalchemy.orm import defer, lazyload

from app.context import MAX_CHOICES, PAGE_ROWS, Context
from app.db.models import Embedding, EmbeddingStatus, StoredFile, TaskRun, TaskStatus
from app.db.types import RowId
from app.embeddings.family import WITH_TRUTH, FamilyMember, read_family
from app.embeddings.service import get_embedding
from app.storage import Stored
from app.tasks.service import LAUNCHABLE, check_columns, check_vectors, get_task, launch_task
from app.web.dependencies import Row
from isoscope.core.errors import InvalidError, IsoscopeError, NotFoundError
from isoscope.files.strict import Strict
from isotropy.catalog import TruthKind

MAX_OTHERS = 100
"""Maximum number of embeddings that one request may judge."""
ROW_FIELDS = ("file_sha256", "text_columns", "max_rows", "seed")
"""Fields of an encoding's provenance that identify the texts of its rows."""
MODEL_FIELDS = ("model", "revision")


class SameRowsEmbedding(NamedTuple):
    """An embedding with as many rows as the task's, with its queries, or the reason why the task cannot judge it."""

    embedding_id: str
    name: str
    layer: int | None
    is_layer: bool
    """Whether it is another layer of the task's encoding or file."""
    queries_id: str | None
    reason: str | None


class EmbeddingChoice(Strict):
    """An embedding to judge by the same task."""

    embedding_id: RowId
    queries_id: Annotated[
        RowId | None, Field(description="Its queries; null takes those of the same model and layer.")
    ] = None


class LeftOutLayer(Row):
    """A layer that the task cannot judge."""

    embedding_id: str
    name: str
    reason: str


class JudgedOthers(NamedTuple):
    """The family with the newly queued tasks, and the layers that could not be judged."""

    members: list[FamilyMember]
    left_out: list[LeftOutLayer]


def list_others(context: Context, task: TaskRun) -> list[SameRowsEmbedding]:
    """Return embeddings with equally many rows that the task has not judged: layers in order, then the newest.

    Empty for compression, which has no ground truth.
    """
    if task.config.kind is TruthKind.COMPRESSION:
        return []
    task_rows = _TaskRows.read(context, task, get_embedding(context, task.embedding_id))
    judged_ids = {
        member.embedding_id for member in read_family(context, task.family_key) if member.status not in LAUNCHABLE
    }
    candidates = _list_candidates(context, task_rows.corpus)
    return [task_rows.describe(candidate) for candidate in candidates if candidate.id not in judged_ids]


def judge_others(context: Context, task_id: str, choices: Sequence[EmbeddingChoice] | None = None) -> JudgedOthers:
    """Judge other embeddings by a task: the chosen ones, or every other layer of its encoding or file.

    Embeddings that were judged already are left as they are.

    Raises:
        InvalidError: a chosen embedding has other rows or no queries, or there is no other layer.

    """
    task = get_task(context, task_id)
    if task.config.kind is TruthKind.COMPRESSION:
        raise InvalidError(
            "Compression has no ground truth: vectors as they are always score 1. Choose a task of another kind."
        )
    task_rows = _TaskRows.read(context, task, get_embedding(context, task.embedding_id))
    left_out: list[LeftOutLayer] = []
    if choices is None:
        layers = [
            layer for layer in map(task_rows.describe, _list_candidates(context, task_rows.corpus)) if layer.is_layer
        ]
        left_out = [LeftOutLayer.model_validate(layer) for layer in layers if layer.reason]
        candidates = [
            EmbeddingChoice(embedding_id=layer.embedding_id, queries_id=layer.queries_id)
            for layer in layers
            if not layer.reason
        ]
        if not layers:
            raise InvalidError(f"{task_rows.corpus.name} has no other layers. Name the embeddings to judge.", "others")
    else:
        candidates = [_resolve_choice(context, task_rows, choice) for choice in choices]
    if len(candidates) > MAX_OTHERS:
        raise InvalidError(f"Judge at most {MAX_OTHERS} embeddings at once, not {len(candidates):,}.", "others")
    context.require_room()
    members = {member.embedding_id: member for member in read_family(context, task.family_key)}
    for candidate in candidates:
        member = members.get(candidate.embedding_id)
        if member is None:
            launch_task(context, _add_draft(context, task, candidate))
        elif member.status in LAUNCHABLE:
            launch_task(context, member.task_id)
    return JudgedOthers(read_family(context, task.family_key), left_out)


class PossibleTaskOut(Row):
    """A task of another embedding of the same rows, whose ground truth can judge this one too."""

    task_id: str
    name: Annotated[str, Field(description="The file or column of the ground truth.")]
    embedding: Annotated[str, Field(description="Name of the embedding that it has judged.")]


def list_possible_tasks(context: Context, embedding: Embedding) -> list[PossibleTaskOut]:
    """Return tasks of other embeddings of the same rows that have not judged this one, the newest first."""
    family_key = func.coalesce(TaskRun.family_id, TaskRun.id)
    tasks = select(TaskRun, Embedding).join(Embedding, Embedding.id == TaskRun.embedding_id)
    conditions = Embedding.n == embedding.n, Embedding.trashed_at.is_(None), TaskRun.status == TaskStatus.FINISHED
    judging_families = select(family_key).where(TaskRun.embedding_id == embedding.id)
    possible_tasks = tasks.where(*conditions, WITH_TRUTH, family_key.not_in(judging_families))
    one_id_per_family = possible_tasks.with_only_columns(func.min(TaskRun.id)).group_by(family_key)
    newest = tasks.where(TaskRun.id.in_(one_id_per_family)).order_by(TaskRun.created_at.desc(), TaskRun.id)
    load_options = *map(defer, (TaskRun.results, TaskRun.maps, TaskRun.preview)), lazyload(Embedding.tags)
    with context.sessions() as session:
        rows = session.execute(newest.limit(PAGE_ROWS).options(*load_options)).all()
    return [
        PossibleTaskOut(task_id=task.id, name=task.filename or task.config.labels or "", embedding=corpus.name)
        for task, corpus in rows
        if _TaskRows.read(context, task, corpus).describe(embedding).reason is None
    ]


class _TaskRows(NamedTuple):
    """A task with its embeddings, and embeddings that may be the queries of other layers."""

    task: TaskRun
    corpus: Embedding
    queries: Embedding | None
    possible_queries: Sequence[Embedding]

    @classmethod
    def read(cls, context: Context, task: TaskRun, corpus: Embedding) -> "_TaskRows":
        if task.queries_id is None:
            return cls(task, corpus, None, ())
        queries = get_embedding(context, task.queries_id)
        return cls(task, corpus, queries, [queries, *_list_candidates(context, queries)])

    def is_layer(self, embedding: Embedding) -> bool:
        return embedding.series is not None and embedding.series == self.corpus.series

    def describe(self, embedding: Embedding) -> SameRowsEmbedding:
        queries, reason = None, None
        try:
            queries = self.match_queries(embedding)
        except IsoscopeError as error:
            reason = str(error)
        is_layer, queries_id = self.is_layer(embedding), queries.id if queries else None
        return SameRowsEmbedding(embedding.id, embedding.name, embedding.layer, is_layer, queries_id, reason)

    def match_queries(self, embedding: Embedding, chosen_queries: Embedding | None = None) -> Embedding | None:
        """Return the queries that belong to an embedding. Raises IsoscopeError if rows or queries do not fit."""
        _require_same_rows(self.corpus, embedding)
        queries = chosen_queries
        if self.queries is not None:
            queries = chosen_queries or self._find_queries(embedding, self.queries)
            _require_same_rows(self.queries, queries)
        elif chosen_queries is not None:
            raise InvalidError(f"A task of kind {self.task.config.kind} takes no queries. Leave them out.")
        check_vectors(embedding, queries)
        check_columns(self.task.config, embedding, queries)
        return queries

    def _find_queries(self, embedding: Embedding, task_queries: Embedding) -> Embedding:
        is_layer_of_file = self.is_layer(embedding) and embedding.encoding_id is None
        model, row_sources = _get_model_identity(embedding), _get_row_sources(task_queries)
        for queries in self.possible_queries:
            if is_layer_of_file and queries.series == task_queries.series and queries.layer == embedding.layer:
                return queries
            same_rows = _get_row_sources(queries) == row_sources
            if model is not None and _get_model_identity(queries) == model and same_rows:
                return queries
        if embedding.layer is None or row_sources is None:
            raise InvalidError(
                f"Which queries belong to {embedding.name} is not known. Open its own task page and upload "
                "the same ground truth with its queries: it is then drawn here too."
            )
        pooling = "" if embedding.pooling is None else f", {embedding.pooling}"
        raise InvalidError(
            f"{task_queries.name} has no partner of layer {embedding.layer}{pooling}. Encode the queries with that "
            "layer and measure it."
        )


def _resolve_choice(context: Context, task_rows: _TaskRows, choice: EmbeddingChoice) -> EmbeddingChoice:
    """Return a choice with its queries. Raise IsoscopeError at the field ``others`` if the task cannot judge it."""
    try:
        embedding = get_embedding(context, choice.embedding_id)
        chosen_queries = None if choice.queries_id is None else get_embedding(context, choice.queries_id)
        queries = task_rows.match_queries(embedding, chosen_queries)
    except NotFoundError:
        raise
    except IsoscopeError as error:
        error.field = "others"
        raise
    return EmbeddingChoice(embedding_id=embedding.id, queries_id=queries.id if queries else None)


def _list_candidates(context: Context, reference: Embedding) -> list[Embedding]:
    """Return other embeddings with equally many rows: layers of the same encoding or file first, then the newest."""
    same_size = select(Embedding).where(
        Embedding.id != reference.id,
        Embedding.n == reference.n,
        Embedding.trashed_at.is_(None),
        Embedding.status != EmbeddingStatus.FAILED,
    )
    siblings_first = case((Embedding.encoding_id == reference.encoding_id, 0), else_=1)
    order = siblings_first, Embedding.created_at.desc(), Embedding.id
    embeddings = context.scalars(same_size.order_by(*order).limit(MAX_CHOICES).options(lazyload(Embedding.tags)))
    series = reference.series
    if series:
        embeddings.sort(key=lambda embedding: (0, embedding.layer or 0) if embedding.series == series else (1, 0))
    return embeddings


def _require_same_rows(expected: Embedding, embedding: Embedding) -> None:
    """Raise InvalidError if an embedding is not measured, or if its rows certainly differ."""
    if embedding.status is not EmbeddingStatus.READY or embedding.trashed_at is not None:
        raise InvalidError(f"{embedding.name} is not measured. Choose a measured embedding.")
    if embedding.n != expected.n:
        raise InvalidError(
            f"{embedding.name} has {embedding.n or 0:,} rows, {expected.name} has {expected.n or 0:,}. "
            "Choose the same rows."
        )
    row_sources = _get_row_sources(expected), _get_row_sources(embedding)
    name_hashes = [(source.independent or {}).get("names_in_any_order") for source in (expected, embedding)]
    if any(None not in pair and pair[0] != pair[1] for pair in (row_sources, name_hashes)):
        raise InvalidError(f"{embedding.name} has different rows from {expected.name}. Choose the same rows.")


def _get_row_sources(embedding: Embedding) -> tuple[Any, ...] | None:
    """Return the provenance of an encoding's rows; None for embeddings that are not encodings."""
    provenance = embedding.provenance or {}
    return None if embedding.encoding_id is None else tuple(repr(provenance.get(name)) for name in ROW_FIELDS)


def _get_model_identity(embedding: Embedding) -> tuple[Any, ...] | None:
    """Return model, revision, layer and pooling; None for embeddings that are not encodings."""
    provenance = embedding.provenance or {}
    values = (*(provenance.get(name) for name in MODEL_FIELDS), embedding.layer, embedding.pooling)
    return None if embedding.encoding_id is None else values


def _add_draft(context: Context, task: TaskRun, candidate: EmbeddingChoice) -> str:
    """Add a draft with the settings and the stored ground truth of a task."""
    draft = TaskRun(
        embedding_id=candidate.embedding_id,
        queries_id=candidate.queries_id,
        config=task.config,
        family_id=task.family_key,
        filename=task.filename,
        truth_sha256=task.truth_sha256,
    )
    file = context.get(StoredFile, task.truth_sha256) if task.truth_sha256 else None
    stored = [] if file is None else [Stored(file.sha256, file.size_bytes)]
    with context.ledger.recording(*stored) as session:
        session.add(draft)
    return draft.id
