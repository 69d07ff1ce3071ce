"""The vectors of an encoding become embeddings: files into the storage, rows in one transaction."""

from datetime import timedelta
from functools import partial
from typing import Any

from app.db import job_kinds
from app.db.encoding import EncodingConfig
from app.db.models import (
    Embedding,
    EmbeddingOrigin,
    Encoding,
    EncodingStatus,
)
from app.db.types import utcnow
from app.queue import Job
from app.storage import Stored
from app.storage.ledger import Ledger
from isoscope.files.selection import Selection
from workers.embeddings import files_of
from workers.encode.forward import Encoded, Place
from workers.encode.progress import Progress
from workers.encode.texts import Texts
from workers.files import keeping
from workers.generated import ARRAY, LABEL, NAME, jsonl_file, npy_file

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
    _, n, d = encoded.vectors.shape
    with keeping(ledger) as keep:
        annotations = keep(lambda: jsonl_file(texts.annotations()))  # one file for all embeddings
        vectors: list[Stored] = []
        for matrix in encoded.vectors:
            progress.advance(len(texts))
            vectors.append(keep(partial(npy_file, n, d, matrix.dtype, [matrix])))
        embeddings = [
            _embedding(encoding, config, texts, place, kept, annotations, environment)
            for place, kept in zip(encoded.places, vectors, strict=True)
        ]
        now = utcnow()
        for number, embedding in enumerate(embeddings):
            embedding.created_at = now - timedelta(microseconds=number)  # in a list, newest first, layer 0 leads
        with ledger.recording(annotations, *vectors) as session:
            progress.write(
                session,
                status=EncodingStatus.FINISHED,
                done=len(texts),
                error=None,
                environment=environment,
                finished_at=now,
            )
            session.add_all(embeddings)
    return [Job(job_kinds.INSPECT, embedding.id) for embedding in embeddings]


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
    labels = None if texts.labels is None else LABEL
    return Embedding(
        name=encoding.name[: MAX_NAME_CHARACTERS - len(kind)] + kind,
        filename=filename,
        format="npy",
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
        selection=Selection(vectors=ARRAY, names=NAME, labels=labels).model_dump(),
        files=files_of((filename, vectors), ("texts.jsonl", annotations)),
    )
