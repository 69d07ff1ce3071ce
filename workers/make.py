"""The making job: a map that was judged, applied to all rows of its embedding, as an embedding of its own."""

from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import NDArray
from safetensors.torch import load_file

from app.db import job_kinds
from app.db.models import Embedding, EmbeddingStatus, PostProcessing
from app.db.postprocess import is_of
from app.queue import Job
from app.settings import Settings
from app.storage import open_storage
from app.storage.ledger import Ledger
from isoscope.core.errors import ConflictError, InvalidError, NotFoundError
from isoscope.files.matrix import Matrix
from isoscope.files.selection import Selection
from isotropy.postprocess.fitted import Fitted
from isotropy.postprocess.methods import restore
from isotropy.rows import finite_rows
from workers.embeddings import fail, files_of, waiting
from workers.files import fetch, keeping
from workers.generated import ARRAY, GROUP, LABEL, NAME, jsonl_file, npy_file
from workers.sessions import job_sessions
from workers.upload import open_embedding

ANNOTATIONS = "annotations.jsonl"


def make_embedding(embedding_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Write the vectors that an embedding was asked for, and have them inspected and measured like an upload."""
    sessions = job_sessions(settings)
    with sessions() as session:
        embedding = session.get(Embedding, embedding_id)
        if embedding is None or embedding.status is not EmbeddingStatus.MAKING:
            return ()
        source = session.get(Embedding, embedding.source_id or "")
        judged = session.get(PostProcessing, embedding.postprocessing_id or "")
    try:
        if source is None:
            raise NotFoundError("What this was to be made of was deleted; try a method on another embedding.")
        fitted = _fitted(source, judged, settings)
        matrix = open_embedding(source, settings)
        return _store(embedding, matrix, fitted, Ledger(sessions, open_storage(settings)))
    except Exception as error:  # noqa: BLE001 - whatever it is belongs into the row, not into a retry
        fail(error, sessions, embedding)
        return ()


def images(matrix: Matrix, fitted: Fitted) -> Iterator[NDArray[Any]]:
    """Yield the images of all rows in order; a row with NaN or infinity stays as it is, so that rows keep their places.

    Raises:
        InvalidError: the map is of other dimensions.

    """
    for chunk, finite in finite_rows(matrix):
        try:
            mapped = fitted.apply(chunk[finite])
        except ValueError as error:
            raise InvalidError(str(error)) from error
        chunk[finite] = mapped
        yield chunk.numpy()


def _fitted(source: Embedding, judged: PostProcessing | None, settings: Settings) -> Fitted:
    if judged is None:
        raise ConflictError(
            f"The trial that this was to be made by is gone: other vectors were chosen of {source.name} meanwhile, or "
            "newer trials took its place. Try the method again first."
        )
    if judged.state_sha256 is None or not is_of(judged, source):
        raise ConflictError(f"Other vectors were chosen of {source.name} meanwhile; try the method on them first.")
    return restore(
        judged.method, load_file(fetch(judged.state_sha256, f"map.safetensors of {source.name!r}", settings))
    )


def _store(read: Embedding, matrix: Matrix, fitted: Fitted, ledger: Ledger) -> Sequence[Job]:
    """Keep the files and have them inspected; nothing of them where nobody waits for them any more."""
    selection = matrix.selection
    given = {NAME: selection.names, LABEL: selection.labels, GROUP: selection.groups}
    chosen = {column: annotation for column, annotation in given.items() if annotation is not None}
    with keeping(ledger) as keep:
        vectors = keep(lambda: npy_file(matrix.n, matrix.d, matrix.dtype, images(matrix, fitted)))
        named = [(ANNOTATIONS, keep(lambda: jsonl_file(_columns(matrix, chosen))))] if chosen else []
        with ledger.recording(vectors, *(stored for _, stored in named)) as session:
            if (row := waiting(session, read)) is None:
                return ()
            row.files = files_of((read.filename, vectors), *named)
            row.selection = Selection(
                vectors=ARRAY,
                names=given[NAME] and NAME,
                labels=given[LABEL] and LABEL,
                groups=given[GROUP] and GROUP,
            ).model_dump()
            row.commit_when_inspected = True
            row.status = EmbeddingStatus.INSPECTING
            row.attempts = 0
            row.error = None
    return (Job(job_kinds.INSPECT, read.id),)


def _columns(matrix: Matrix, chosen: dict[str, str]) -> dict[str, Iterator[str]]:
    return {column: matrix.contents.values(annotation) for column, annotation in chosen.items()}
