"""Embeddings: upload, choose what is the matrix, measure, compare shrinkage, delete."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, BinaryIO, NamedTuple

from sqlalchemy import ColumnElement, delete, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, selectinload

from app.context import Context
from app.db.models import (
    Embedding,
    EmbeddingFile,
    EmbeddingStatus,
    FigureData,
    FileRole,
    Measurement,
    PostProcessing,
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
CHOOSABLE = (EmbeddingStatus.DRAFT, *FINISHED)


class Incoming(NamedTuple):
    """A file as it arrives."""

    stream: BinaryIO
    filename: str


class CurveSource(NamedTuple):
    """An embedding whose covariance that of another may be shrunk towards."""

    id: str
    name: str
    n: int | None


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
    """All embeddings, newest first, with the values of their measurements but not the curves and spectra."""
    newest = select(Embedding).order_by(Embedding.created_at.desc(), Embedding.id)
    values = selectinload(Embedding.measurements).defer(Measurement.detail)
    with context.sessions() as session:
        return list(session.scalars(newest.options(values)))


def get_embedding(context: Context, embedding_id: str) -> Embedding:
    """One embedding with its files, measurements and curves."""
    with context.sessions() as session:
        return _find(session, embedding_id)


def get_figure_data(context: Context, embedding_id: str, *slugs: str) -> dict[str, dict[str, Any]]:
    """What the figures of an embedding's report show beside its measurements, by slug; all, or of ``slugs``."""
    wanted = select(FigureData).where(FigureData.embedding_id == embedding_id)
    if slugs:
        wanted = wanted.where(FigureData.slug.in_(slugs))
    with context.sessions() as session:
        return {one.slug: one.data for one in session.scalars(wanted)}


def get_stored_figure(context: Context, embedding_id: str, slug: str) -> dict[str, Any]:
    """What one figure of an embedding shows beside its measurements."""
    data = get_figure_data(context, embedding_id, slug)
    if slug not in data:
        embedding = get_embedding(context, embedding_id)
        if embedding.status is not EmbeddingStatus.READY:
            raise NotFoundError(
                f"There is no {slug!r} of {embedding.name}, which is {embedding.status}: it comes with the measures."
            )
        needs = "its rows have no names, or " if slug == "neighbours" else ""
        raise NotFoundError(
            f"There is no {slug!r} of {embedding.name}: {needs}another version of Isoscope measured it. "
            "Choose again, and it is measured anew."
        )
    return data[slug]


def get_figure_slugs(context: Context, embedding_id: str) -> set[str]:
    """Of which figures an embedding has data, without reading these."""
    with context.sessions() as session:
        return set(session.scalars(select(FigureData.slug).where(FigureData.embedding_id == embedding_id)))


def select_embedding(context: Context, embedding_id: str, selection: Selection, *, commit: bool = False) -> Embedding:
    """Choose other vectors, names or labels, and have the worker look again; ``commit`` measures then.

    What was made of the former choice goes: measurements, curves and post-processings.
    """
    with context.sessions.begin() as session:
        embedding = _find(session, embedding_id)
        if embedding.status not in CHOOSABLE:
            raise ConflictError(
                f"{embedding.name} is {embedding.status}: choose from it when a worker is done with it."
            )
        if embedding.inspection is None:
            raise ConflictError(
                f"{embedding.name} could not be read, so there is nothing to choose from. Upload it again."
            )
        Inspection.model_validate(embedding.inspection).check(selection)
        jobs, hashes = _drop_results(session, embedding)
        embedding.selection = selection.model_dump()
        embedding.commit_when_inspected = commit
        embedding.status = EmbeddingStatus.INSPECTING
        embedding.attempts = 0
        embedding.error = None
    for job in jobs:
        context.queue.cancel(job)
    context.ledger.release(*hashes)
    context.queue.restart(Job(JobKind.INSPECT, embedding_id))
    return get_embedding(context, embedding_id)


def commit_embedding(context: Context, embedding_id: str) -> Embedding:
    """Measure a draft as it is shown."""
    with context.sessions.begin() as session:
        embedding = _find(session, embedding_id)
        if embedding.status is not EmbeddingStatus.DRAFT:
            raise ConflictError(f"Only a draft can be measured; this embedding is {embedding.status}.")
        embedding.status = EmbeddingStatus.MEASURING
        embedding.attempts = 0
    context.queue.ensure(Job(JobKind.MEASURE, embedding_id))
    return get_embedding(context, embedding_id)


def delete_embedding(context: Context, embedding_id: str) -> None:
    """Delete an embedding in any state, its measurements, its curves and the files that nobody else needs."""
    with context.sessions.begin() as session:
        embedding = _find(session, embedding_id)
        jobs = [Job(kind, embedding_id) for kind in (JobKind.MAKE, JobKind.INSPECT, JobKind.MEASURE)]
        curves = select(ZetaCurve.id).where(_takes_part(embedding_id))
        jobs += [Job(JobKind.CURVE, curve_id) for curve_id in session.scalars(curves)]
        tried = list(session.scalars(select(PostProcessing).where(PostProcessing.embedding_id == embedding_id)))
        jobs += [Job(JobKind.POSTPROCESS, one.id) for one in tried if one.status is ResultStatus.QUEUED]
        session.delete(embedding)
    for job in jobs:
        context.queue.cancel(job)
    context.ledger.release(*(file.file_sha256 for file in embedding.files), *(one.state_sha256 for one in tried))


def list_curve_sources(context: Context, embedding: Embedding) -> list[CurveSource]:
    """Other measured embeddings of as many dimensions, newest first."""
    others = select(Embedding.id, Embedding.name, Embedding.n).where(
        Embedding.id != embedding.id,
        Embedding.d == embedding.d,
        Embedding.status == EmbeddingStatus.READY,
        Embedding.trashed_at.is_(None),
    )
    with context.sessions() as session:
        newest = session.execute(others.order_by(Embedding.created_at.desc(), Embedding.id))
        return [CurveSource(*row) for row in newest]


def get_zeta_curve(context: Context, embedding_id: str, source: str, source_id: str | None = None) -> ZetaCurve:
    """The stored shrinkage-zeta curve of a source: ``identity``, ``sample`` or ``embedding`` with its id."""
    with context.sessions() as session:
        _find(session, embedding_id)
        curve = _find_curve(session, embedding_id, source, source_id)
    if curve is None:
        raise NotFoundError(f"There is no shrinkage-zeta curve with source {source!r} for this embedding yet.")
    return curve


def request_zeta_curve(context: Context, embedding_id: str, source_id: str) -> ZetaCurve:
    """Have the curve with another embedding's covariance computed, unless it is there already; a failed one again."""
    with context.sessions() as session:
        embedding, source = _find(session, embedding_id), _find(session, source_id)
        for one in (embedding, source):
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


def base_name(filename: str) -> str:
    """A name for show only, without any folder a client may have sent; no path is ever made from it."""
    name = PureWindowsPath(PurePosixPath(filename).name).name
    printable = "".join(character for character in name if character.isprintable()).strip()
    if not printable.strip("."):
        raise InvalidError("The upload has no file name; send the file with one, such as embeddings.npy.", "file")
    return printable[-255:]


def clean_name(name: str | None, default: str) -> str:
    """The name the user gave, or else the file's."""
    given = " ".join("".join(letter if letter.isprintable() else " " for letter in name or default).split())
    return given[:MAX_NAME_CHARACTERS] or default[:MAX_NAME_CHARACTERS]


def _find(session: Session, embedding_id: str) -> Embedding:
    wanted = select(Embedding).where(Embedding.id == embedding_id)
    loaded = wanted.options(selectinload(Embedding.measurements), selectinload(Embedding.curves))
    if (embedding := session.scalar(loaded)) is None:
        raise NotFoundError(f"There is no embedding {embedding_id!r}; it may have been deleted.")
    return embedding


def _drop_results(session: Session, embedding: Embedding) -> tuple[list[Job], list[str | None]]:
    """Delete all that was made of an embedding; return the jobs that may be at it, and hashes of files it leaves."""
    curves = delete(ZetaCurve).where(_takes_part(embedding.id)).returning(ZetaCurve.id)
    jobs = [Job(JobKind.CURVE, curve_id) for curve_id in session.scalars(curves)]
    processed = delete(PostProcessing).where(PostProcessing.embedding_id == embedding.id)
    hashes: list[str | None] = []
    for row_id, sha256 in session.execute(processed.returning(PostProcessing.id, PostProcessing.state_sha256)):
        jobs.append(Job(JobKind.POSTPROCESS, row_id))
        hashes.append(sha256)
    for results in (Measurement, FigureData):
        session.execute(delete(results).where(results.embedding_id == embedding.id))
    session.expire(embedding, ["measurements", "curves"])
    embedding.n_left_out = embedding.measured_at = None
    return jobs, hashes


def _takes_part(embedding_id: str) -> ColumnElement[bool]:
    """Whether a curve is of an embedding, or of another towards it."""
    return or_(ZetaCurve.embedding_id == embedding_id, ZetaCurve.source_id == embedding_id)


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
