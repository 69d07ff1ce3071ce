"""The same task on other embeddings: which have the same rows, with which queries, and the tasks that judge them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import case, select
from sqlalchemy.orm import lazyload

from app.context import OFFERED, Context
from app.db.models import Embedding, EmbeddingStatus, StoredFile, TaskRun, TaskStatus
from app.embeddings.service import get_embedding
from app.storage import Stored
from app.tasks.family import Member, key_of, read_family, series_of
from app.tasks.service import check_columns, check_vectors, get_task, launch_task
from isoscope.core.errors import InvalidError, IsoscopeError, NotFoundError
from isotropy.catalog import TruthKind

MAX_OTHERS = 100
"""Embeddings that one request has judged."""
AGAIN = (TaskStatus.DRAFT, TaskStatus.FAILED, TaskStatus.CANCELLED)
TEXTS = ("file_sha256", "text_columns", "max_rows", "seed")
"""Of the provenance of an encoding: what its rows are made of."""
MODEL = ("model", "revision")


class Other(NamedTuple):
    """An embedding with as many rows as the task's: its queries where the task has some, or why it is left out."""

    embedding_id: str
    name: str
    layer: int | None
    is_layer: bool
    """Whether it is another layer of the task's encoding or file."""
    queries_id: str | None
    reason: str | None


class Choice(NamedTuple):
    """An embedding to judge; without queries of its own those of the same model and layer are taken."""

    embedding_id: str
    queries_id: str | None = None


class LeftOut(NamedTuple):
    """A layer that the task cannot judge, and why."""

    embedding_id: str
    name: str
    reason: str


class JudgedOthers(NamedTuple):
    """The family once others were handed to the workers, and layers that could not be."""

    members: list[Member]
    left_out: list[LeftOut]


def list_others(context: Context, task: TaskRun) -> list[Other]:
    """Return embeddings with as many rows that the task has not judged: layers in order, then the newest.

    None for compression, which has no ground truth.
    """
    if task.config.kind is TruthKind.COMPRESSION:
        return []
    asked = _Asked.read(context, task)
    done = {one.embedding_id for one in read_family(context, task) if one.status not in AGAIN}
    return [asked.other(one) for one in _candidates(context, asked.corpus) if one.id not in done]


def judge_others(context: Context, task_id: str, choices: Sequence[Choice] | None = None) -> JudgedOthers:
    """Judge other embeddings by a task: those chosen, or every other layer of its encoding or file.

    What was judged already is left as it is.

    Raises:
        InvalidError: one that was chosen has other rows or no queries, or there is no other layer.

    """
    task = get_task(context, task_id)
    if task.config.kind is TruthKind.COMPRESSION:
        raise InvalidError(
            "Compression has no ground truth: vectors as they are always score 1. Choose a task of another kind."
        )
    asked = _Asked.read(context, task)
    left_out: list[LeftOut] = []
    if choices is None:
        layers = [asked.other(one) for one in _candidates(context, asked.corpus) if asked.is_layer(one)]
        left_out = [LeftOut(one.embedding_id, one.name, one.reason) for one in layers if one.reason]
        wanted = [one for one in layers if not one.reason]
        if not layers:
            raise InvalidError(f"{asked.corpus.name} has no other layers. Name the embeddings to judge.", "others")
    else:
        wanted = [_chosen(context, asked, one) for one in choices]
    if len(wanted) > MAX_OTHERS:
        raise InvalidError(f"Judge at most {MAX_OTHERS} embeddings at once, not {len(wanted):,}.", "others")
    context.require_room()
    members = {one.embedding_id: one for one in read_family(context, task)}
    for one in wanted:
        known = members.get(one.embedding_id)
        if known is None:
            launch_task(context, _add(context, task, one))
        elif known.status in AGAIN:
            launch_task(context, known.task_id)
    return JudgedOthers(read_family(context, task), left_out)


class _Asked(NamedTuple):
    """A task with its embeddings, and what may be queries of others."""

    task: TaskRun
    corpus: Embedding
    queries: Embedding | None
    partners: Sequence[Embedding]

    @classmethod
    def read(cls, context: Context, task: TaskRun) -> "_Asked":
        corpus = get_embedding(context, task.embedding_id)
        if task.queries_id is None:
            return cls(task, corpus, None, ())
        queries = get_embedding(context, task.queries_id)
        return cls(task, corpus, queries, [queries, *_candidates(context, queries)])

    def is_layer(self, one: Embedding) -> bool:
        return series_of(one) is not None and series_of(one) == series_of(self.corpus)

    def other(self, one: Embedding) -> Other:
        try:
            queries = self.require_alike(one)
        except IsoscopeError as error:
            return Other(one.id, one.name, one.layer, self.is_layer(one), None, str(error))
        return Other(one.id, one.name, one.layer, self.is_layer(one), None if queries is None else queries.id, None)

    def require_alike(self, one: Embedding, named: Embedding | None = None) -> Embedding | None:
        """Return the queries that belong to an embedding.

        Raises:
            IsoscopeError: its rows are others, or its queries are not known.

        """
        _require_same_rows(self.corpus, one)
        queries = named
        if self.queries is not None:
            queries = named or self._partner(one)
            _require_same_rows(self.queries, queries)
        elif named is not None:
            raise InvalidError(f"A task of kind {self.task.config.kind} takes no queries. Leave them out.")
        check_vectors(one, queries)
        check_columns(self.task.config, one, queries)
        return queries

    def _partner(self, one: Embedding) -> Embedding:
        """Return the queries of the same layer and model as an embedding."""
        if self.queries is None:
            raise InvalidError("There are no queries.")
        same_file = self.is_layer(one) and one.encoding_id is None
        for queries in self.partners:
            if same_file and series_of(queries) == series_of(self.queries) and queries.layer == one.layer:
                return queries
            if _model(one) is not None and _model(one) == _model(queries) and _texts(queries) == _texts(self.queries):
                return queries
        if one.layer is None or _texts(self.queries) is None:
            raise InvalidError(
                f"Which queries belong to {one.name} is not known. Open its own task page and upload the same ground "
                "truth with its queries: it is then drawn here too."
            )
        pooled = "" if one.pooling is None else f", {one.pooling}"
        raise InvalidError(
            f"{self.queries.name} has no partner of layer {one.layer}{pooled}. Encode the queries with that layer and "
            "measure it."
        )


def _chosen(context: Context, asked: _Asked, choice: Choice) -> Other:
    try:
        one = get_embedding(context, choice.embedding_id)
        named = None if choice.queries_id is None else get_embedding(context, choice.queries_id)
        queries = asked.require_alike(one, named)
    except NotFoundError:
        raise
    except IsoscopeError as error:
        error.field = "others"
        raise
    return Other(one.id, one.name, one.layer, asked.is_layer(one), None if queries is None else queries.id, None)


def _candidates(context: Context, like: Embedding) -> list[Embedding]:
    """Return other embeddings with as many rows: layers of the same encoding or file first, then the newest."""
    as_many = select(Embedding).where(
        Embedding.id != like.id,
        Embedding.n == like.n,
        Embedding.trashed_at.is_(None),
        Embedding.status != EmbeddingStatus.FAILED,
    )
    siblings = case((Embedding.encoding_id == like.encoding_id, 0), else_=1)
    order = siblings, Embedding.created_at.desc(), Embedding.id
    found = context.scalars(as_many.order_by(*order).limit(OFFERED).options(lazyload(Embedding.tags)))
    series = series_of(like)
    return sorted(found, key=lambda one: (0, one.layer or 0) if series and series_of(one) == series else (1, 0))


def _require_same_rows(known: Embedding, one: Embedding) -> None:
    """Refuse an embedding whose rows are known to be others, or that is not measured."""
    if one.status is not EmbeddingStatus.READY or one.trashed_at is not None:
        raise InvalidError(f"{one.name} is not measured. Choose a measured embedding.")
    if one.n != known.n:
        raise InvalidError(f"{one.name} has {one.n or 0:,} rows, {known.name} {known.n or 0:,}. Choose the same rows.")
    texts = _texts(known), _texts(one)
    names = [(each.independent or {}).get("names_in_any_order") for each in (known, one)]
    if (None not in texts and texts[0] != texts[1]) or (None not in names and names[0] != names[1]):
        raise InvalidError(f"{one.name} has other rows than {known.name}. Choose the same rows.")


def _texts(one: Embedding) -> tuple[Any, ...] | None:
    """Return what the rows of an encoding are made of; None of other embeddings."""
    made = one.provenance or {}
    return None if one.encoding_id is None else tuple(repr(made.get(name)) for name in TEXTS)


def _model(one: Embedding) -> tuple[Any, ...] | None:
    made = one.provenance or {}
    return None if one.encoding_id is None else (*(made.get(name) for name in MODEL), one.layer, one.pooling)


def _add(context: Context, task: TaskRun, one: Other) -> str:
    """Add a draft with the ground truth and settings of a task; nothing of its bytes is copied."""
    made = TaskRun(
        embedding_id=one.embedding_id,
        queries_id=one.queries_id,
        config=task.config,
        family_id=key_of(task),
        filename=task.filename,
        truth_sha256=task.truth_sha256,
    )
    file = context.get(StoredFile, task.truth_sha256) if task.truth_sha256 else None
    stored = [] if file is None else [Stored(file.sha256, file.size_bytes)]
    with context.ledger.recording(*stored) as session:
        session.add(made)
    return made.id
