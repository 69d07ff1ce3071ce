"""The vectors of an encoding become embeddings: files into the storage, rows in one transaction."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from app.db.encoding import EncodingConfig
from app.db.models import (
    Embedding,
    EmbeddingFile,
    EmbeddingOrigin,
    Encoding,
    EncodingStatus,
    FileRole,
)
from app.db.types import utcnow
from app.formats.detect import Format
from app.formats.selection import Selection
from app.queue import Job, JobKind
from app.storage import Stored
from app.storage.ledger import Ledger
from workers.encode.forward import Encoded, Place
from workers.encode.progress import Progress
from workers.encode.texts import Texts

NPY_HEADER_BYTES = 4096
"""More than numpy writes before the numbers."""
ARRAY_NAME = "array"
"""What the reader of npy files calls the only array of one."""
MAX_NAME_CHARACTERS = 200


def publish(
    encoding: Encoding,
    config: EncodingConfig,
    texts: Texts,
    encoded: Encoded,
    environment: dict[str, Any],
    ledger: Ledger,
    progress: Progress,
) -> list[Job]:
    """Make an embedding of each place and the encoding finished, all at once; return the jobs that inspect them.

    Raises:
        EncodingStoppedError: nobody wants it any more; then no file is left.

    """
    vectors = encoded.vectors
    stored: list[Stored] = []
    try:
        stored.append(_store_annotations(texts, ledger))
        for number in range(len(encoded.places)):
            progress.advance(len(texts))
            with vectors.npy(number) as stream:
                stored.append(ledger.store(stream, vectors.size_bytes + NPY_HEADER_BYTES))
        annotations, *matrices = stored
        embeddings = [
            _embedding(encoding, config, texts, place, kept, annotations, environment)
            for place, kept in zip(encoded.places, matrices, strict=True)
        ]
        now = utcnow()
        for number, embedding in enumerate(embeddings):
            embedding.created_at = now - timedelta(microseconds=number)  # in a list, newest first, layer 0 leads
        with ledger.recording(*stored) as session:
            progress.write(
                session,
                status=EncodingStatus.FINISHED,
                done=len(texts),
                error=None,
                environment=environment,
                finished_at=now,
            )
            session.add_all(embeddings)
    except BaseException:
        ledger.release(*(one.sha256 for one in stored))
        raise
    return [Job(JobKind.INSPECT, embedding.id) for embedding in embeddings]


def _store_annotations(texts: Texts, ledger: Ledger) -> Stored:
    """Keep the names and labels of the rows, one file for all embeddings."""
    folder: Path = ledger.storage.folder
    with TemporaryFile(dir=folder) as file:
        file.writelines(texts.annotations())
        size_bytes = file.tell()
        file.seek(0)
        return ledger.store(file, size_bytes)


def _embedding(
    encoding: Encoding,
    config: EncodingConfig,
    texts: Texts,
    place: Place,
    vectors: Stored,
    annotations: Stored,
    environment: dict[str, Any],
) -> Embedding:
    kind = f" · {config.model} · layer {place.layer}, {place.pooling}"
    filename = f"layer {place.layer}, {place.pooling}.npy"
    labels = None if texts.labels is None else "label"
    return Embedding(
        name=encoding.name[: MAX_NAME_CHARACTERS - len(kind)] + kind,
        filename=filename,
        format=Format.NPY.value,
        origin=EmbeddingOrigin.ENCODED,
        provenance={
            "model": config.model,
            **environment["model"],
            "texts": encoding.name,
            "filename": encoding.filename,
            "file_sha256": encoding.file_sha256,
            "layer": place.layer,
            "pooling": place.pooling.value,
            **config.model_dump(mode="json", include={"text_columns", "label_column", "max_rows", "seed"}),
            "max_length": environment["max_length"],
        },
        encoding_id=encoding.id,
        layer=place.layer,
        pooling=place.pooling,
        commit_when_inspected=True,
        selection=Selection(vectors=ARRAY_NAME, names="name", labels=labels).model_dump(),
        files=_files((filename, vectors), ("texts.jsonl", annotations)),
    )


def _files(*named: tuple[str, Stored]) -> list[EmbeddingFile]:
    roles: Sequence[FileRole] = (FileRole.VECTORS, FileRole.ANNOTATIONS)
    return [
        EmbeddingFile(position=position, role=role, filename=filename, file_sha256=kept.sha256)
        for position, (role, (filename, kept)) in enumerate(zip(roles, named, strict=True))
    ]
