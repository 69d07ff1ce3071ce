"""Embeddings: upload, choose what is the matrix, measure, compare shrinkage."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, BinaryIO, NamedTuple

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, defer, selectinload

from app.context import Context
from app.db.models import (
    Embedding,
    EmbeddingFile,
    EmbeddingStatus,
    FigureData,
    FileRole,
    ResultStatus,
    ZetaCurve,
)
from app.errors import ConflictError, InvalidError, IsoscopeError, NotFoundError, TooLargeError
from app.formats.inspection import Inspection
from app.formats.selection import Selection
from app.formats.upload import NamedFile, check_annotations, common_format
from app.queue import Job, JobKind
from app.storage import Stored

MAX_NAME_CHARACTERS = 200
FINISHED = (EmbeddingStatus.READY, EmbeddingStatus.FAILED)


class Incoming(NamedTuple):
    """A file as it arrives."""

    stream: BinaryIO
    filename: str


def create_embedding(
    context: Context,
    vectors: Sequence[Incoming],
    annotations: Incoming | None = None,
    name: str | None = None,
    *,
    commit: bool = False,
) -> Embedding:
    """Keep uploaded files and have a worker look into them.

    Several files of vectors are one embedding, their rows in the natural order of the names. With ``commit`` it is
    measured as soon as it is found readable, by the default choice of array or columns; otherwise it waits as a draft
    for the user to look at it.
    """
    shards = sorted((Incoming(one.stream, base_name(one.filename)) for one in vectors), key=natural_order)
    given = [(FileRole.VECTORS, one) for one in shards]
    if annotations is not None:
        given.append((FileRole.ANNOTATIONS, Incoming(annotations.stream, base_name(annotations.filename))))
    stored: list[Stored] = []
    try:
        for _, one in given:
            stored.append(context.ledger.store(one.stream, context.settings.max_upload_bytes))
            _require_room(context, stored)
        named = [
            NamedFile(context.storage.local(kept.sha256), one.filename)
            for kept, (_, one) in zip(stored, given, strict=True)
        ]
        kind = common_format(named[: len(shards)])
        for file in named[len(shards) :]:
            check_annotations(file)
        filename = together([one.filename for one in shards])
        with context.ledger.recording(*stored) as session:
            embedding = Embedding(
                name=clean_name(name, filename),
                filename=filename,
                format=kind.value,
                commit_when_inspected=commit,
                files=[
                    EmbeddingFile(position=position, role=role, filename=one.filename, file_sha256=kept.sha256)
                    for position, (kept, (role, one)) in enumerate(zip(stored, given, strict=True))
                ],
            )
            session.add(embedding)
    except IsoscopeError:
        context.ledger.release(*(kept.sha256 for kept in stored))
        raise
    context.queue.enqueue(Job(JobKind.INSPECT, embedding.id))
    return get_embedding(context, embedding.id)


def natural_order(file: Incoming) -> list[str | int]:
    """Sort shard-2 before shard-10."""
    parts = re.split(r"(\d+)", file.filename.casefold())
    return [int(part) if i % 2 else part for i, part in enumerate(parts)]


def together(filenames: Sequence[str]) -> str:
    """What several files are called: shard-1.npy and 3 more."""
    first, *others = filenames
    return f"{first[-200:]} and {len(others)} more" if others else first


def _require_room(context: Context, stored: Sequence[Stored]) -> None:
    """Refuse files that are together larger than one may be."""
    limit = context.settings.max_upload_bytes
    if sum(one.size_bytes for one in stored) > limit:
        raise TooLargeError(
            f"The files have more than {limit:,} bytes together, the limit here: upload fewer rows, "
            "or have the limit raised by whoever runs this server.",
            "file",
        )


def list_embeddings(context: Context) -> list[Embedding]:
    """All embeddings that are not in the trash, newest first, without their measurements."""
    newest = select(Embedding).where(Embedding.trashed_at.is_(None)).order_by(Embedding.created_at.desc(), Embedding.id)
    with context.sessions() as session:
        return list(session.scalars(newest.options(defer(Embedding.inspection))))


def get_embedding(context: Context, embedding_id: str) -> Embedding:
    """One embedding with its files, measurements and curves."""
    with context.sessions() as session:
        return find_embedding(session, embedding_id)


def get_figure_data(context: Context, embedding_id: str, *slugs: str) -> dict[str, dict[str, Any]]:
    """What the figures of an embedding's report show beside its measurements, by slug; all, or of ``slugs``."""
    wanted = select(FigureData).where(FigureData.embedding_id == embedding_id)
    if slugs:
        wanted = wanted.where(FigureData.slug.in_(slugs))
    with context.sessions() as session:
        return {one.slug: one.data for one in session.scalars(wanted)}


def select_embedding(context: Context, embedding_id: str, selection: Selection, *, commit: bool = False) -> Embedding:
    """Choose other vectors, names or labels of a draft, and have the worker look again; ``commit`` measures then."""
    with context.sessions.begin() as session:
        embedding = _find_draft(session, embedding_id, "chosen from")
        if embedding.inspection is None:
            raise ConflictError("This file is still being inspected; choose from it when that is done.")
        Inspection.model_validate(embedding.inspection).check(selection)
        embedding.selection = selection.model_dump()
        embedding.commit_when_inspected = commit
        embedding.status = EmbeddingStatus.INSPECTING
        embedding.attempts = 0
    context.queue.restart(Job(JobKind.INSPECT, embedding_id))
    return get_embedding(context, embedding_id)


def commit_embedding(context: Context, embedding_id: str) -> Embedding:
    """Measure a draft as it is shown."""
    with context.sessions.begin() as session:
        embedding = _find_draft(session, embedding_id, "measured")
        embedding.status = EmbeddingStatus.MEASURING
        embedding.attempts = 0
    context.queue.enqueue(Job(JobKind.MEASURE, embedding_id))
    return get_embedding(context, embedding_id)


def get_zeta_curve(context: Context, embedding_id: str, source: str, source_id: str | None = None) -> ZetaCurve:
    """The stored shrinkage-zeta curve of a source: ``identity``, ``sample`` or ``embedding`` with its id."""
    with context.sessions() as session:
        find_embedding(session, embedding_id)
        curve = _find_curve(session, embedding_id, source, source_id)
    if curve is None:
        raise NotFoundError(f"There is no shrinkage-zeta curve with source {source!r} for this embedding yet.")
    return curve


def request_zeta_curve(context: Context, embedding_id: str, source_id: str) -> ZetaCurve:
    """Have the curve with another embedding's covariance computed, unless it is there already; a failed one again."""
    with context.sessions() as session:
        embedding, source = find_embedding(session, embedding_id), find_embedding(session, source_id)
        for one in (embedding, source):
            require_in_use(one)
            if one.status is not EmbeddingStatus.READY:
                raise ConflictError(f"{one.name} is {one.status}; a curve needs two measured embeddings.")
        if embedding.d != source.d:
            raise InvalidError(
                f"Expected an embedding of {embedding.d} dimensions as {embedding.name} has, "
                f"got {source.name} of {source.d}. Choose another.",
                "source_id",
            )
        curve = _find_curve(session, embedding_id, "embedding", source_id)
    if curve is None:
        _add_curve(context, embedding_id, source_id)
    elif curve.status is ResultStatus.FAILED:
        _repeat_curve(context, curve.id)
    return get_zeta_curve(context, embedding_id, "embedding", source_id)


def find_embedding(session: Session, embedding_id: str) -> Embedding:
    """One embedding in a transaction, with its files, tags, measurements and curves."""
    wanted = select(Embedding).where(Embedding.id == embedding_id)
    loaded = wanted.options(selectinload(Embedding.measurements), selectinload(Embedding.curves))
    if (embedding := session.scalar(loaded)) is None:
        raise NotFoundError(f"There is no embedding {embedding_id!r}; it may have been deleted.")
    return embedding


def require_in_use(embedding: Embedding) -> None:
    """Refuse what cannot be done with an embedding while it is in the trash."""
    if embedding.trashed_at is not None:
        raise ConflictError(f"{embedding.name} is in the trash. Restore it first.")


def base_name(filename: str) -> str:
    """A name for show only, without any folder a client may have sent; no path is ever made from it."""
    name = PureWindowsPath(PurePosixPath(filename).name).name
    printable = "".join(character for character in name if character.isprintable()).strip()
    if not printable.strip("."):
        raise InvalidError("The upload has no file name; send the file with one, such as embeddings.npy.", "file")
    return printable[-255:]


def clean_name(name: str | None, default: str) -> str:
    """The name the user gave, or else the file's."""
    return one_line(name or default)[:MAX_NAME_CHARACTERS] or default[:MAX_NAME_CHARACTERS]


def one_line(text: str) -> str:
    """A text without what cannot be printed, its words one blank apart."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _find_draft(session: Session, embedding_id: str, verb: str) -> Embedding:
    embedding = find_embedding(session, embedding_id)
    require_in_use(embedding)
    if embedding.status is not EmbeddingStatus.DRAFT:
        raise ConflictError(f"Only a draft can be {verb}; this embedding is {embedding.status}.")
    return embedding


def _add_curve(context: Context, embedding_id: str, source_id: str) -> None:
    curve = ZetaCurve(embedding_id=embedding_id, source="embedding", source_id=source_id)
    try:
        with context.sessions.begin() as session:
            session.add(curve)
    except IntegrityError:
        return  # the same curve was asked for, or an embedding deleted, at this moment: a look will tell
    context.queue.enqueue(Job(JobKind.CURVE, curve.id))


def _repeat_curve(context: Context, curve_id: str) -> None:
    failed = update(ZetaCurve).where(ZetaCurve.id == curve_id, ZetaCurve.status == ResultStatus.FAILED)
    queued = failed.values(status=ResultStatus.QUEUED, error=None, attempts=0)
    with context.sessions.begin() as session:
        repeated = session.scalar(queued.returning(ZetaCurve.id))
    if repeated is not None:
        context.queue.restart(Job(JobKind.CURVE, curve_id))


def _find_curve(session: Session, embedding_id: str, source: str, source_id: str | None) -> ZetaCurve | None:
    return session.scalar(
        select(ZetaCurve).where(
            ZetaCurve.embedding_id == embedding_id,
            ZetaCurve.source == source,
            ZetaCurve.source_id.is_(None) if source_id is None else ZetaCurve.source_id == source_id,
        )
    )
