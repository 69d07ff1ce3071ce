"""The making job: a map that was judged, applied to all rows of its embedding, as an embedding of its own."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray
from safetensors.torch import load_file
from sqlalchemy import update

from app.db.models import Embedding, EmbeddingFile, EmbeddingStatus, FileRole, PostProcessing
from app.db.postprocess import is_of
from app.errors import ConflictError, InvalidError, NotFoundError
from app.formats.matrix import Matrix
from app.formats.selection import Selection
from app.queue import Job, JobKind
from app.settings import Settings
from app.storage import Stored, open_storage
from app.storage.ledger import Ledger
from isotropy.postprocess.fitted import Fitted
from isotropy.postprocess.methods import restore
from isotropy.rows import finite_rows
from workers.failure import record
from workers.files import fetch, keep
from workers.generated import jsonl_file, npy_file
from workers.points import open_embedding
from workers.sessions import job_sessions

ARRAY = "array"
"""What the one array of an .npy file is called."""
NAMES, LABELS = "name", "label"
ANNOTATIONS = "annotations.jsonl"


def make_embedding(embedding_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Write the vectors that an embedding was asked for, and have them inspected and measured like an upload."""
    sessions = job_sessions(settings)
    row = update(Embedding).where(Embedding.id == embedding_id, Embedding.status == EmbeddingStatus.MAKING)
    with sessions() as session:
        embedding = session.get(Embedding, embedding_id)
        if embedding is None or embedding.status is not EmbeddingStatus.MAKING:
            return ()
        source = session.get(Embedding, embedding.source_id or "")
        judged = session.get(PostProcessing, embedding.postprocessing_id or "")
    try:
        if source is None or judged is None:
            raise NotFoundError("What this was to be made of was deleted; try a method on another embedding.")
        fitted = _fitted(source, judged, settings)
        matrix = open_embedding(source, settings)
        return _store(embedding, matrix, fitted, Ledger(sessions, open_storage(settings)))
    except Exception as error:  # noqa: BLE001 - whatever it is belongs into the row, not into a retry
        record(error, sessions, row, status=EmbeddingStatus.FAILED)
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


def _fitted(source: Embedding, judged: PostProcessing, settings: Settings) -> Fitted:
    if judged.state_sha256 is None or not is_of(judged, source):
        raise ConflictError(f"Other vectors were chosen of {source.name} meanwhile; try the method on them first.")
    return restore(
        judged.method, load_file(fetch(judged.state_sha256, f"map.safetensors of {source.name!r}", settings))
    )


def _store(embedding: Embedding, matrix: Matrix, fitted: Fitted, ledger: Ledger) -> Sequence[Job]:
    vectors = keep(lambda: npy_file(matrix.n, matrix.d, matrix.dtype, images(matrix, fitted)), ledger)
    given = {NAMES: matrix.selection.names, LABELS: matrix.selection.labels}
    chosen = {column: annotation for column, annotation in given.items() if annotation is not None}
    files = [(FileRole.VECTORS, embedding.filename, vectors)]
    if chosen:
        columns = partial(_columns, matrix, chosen)
        annotations = keep(lambda: jsonl_file(columns()), ledger)
        files.append((FileRole.ANNOTATIONS, ANNOTATIONS, annotations))
    selection = Selection(vectors=ARRAY, names=given[NAMES] and NAMES, labels=given[LABELS] and LABELS)
    return _hand_on(embedding.id, files, selection, ledger)


def _columns(matrix: Matrix, chosen: dict[str, str]) -> dict[str, Iterator[str]]:
    return {column: matrix.contents.values(annotation) for column, annotation in chosen.items()}


def _hand_on(
    embedding_id: str, files: list[tuple[FileRole, str, Stored]], selection: Selection, ledger: Ledger
) -> Sequence[Job]:
    """Write the files into the row, and have them inspected; nothing of them where nobody waits for them any more."""
    with ledger.recording(*(stored for _, _, stored in files)) as session:
        row = session.get(Embedding, embedding_id, with_for_update=True)
        waiting = row is not None and row.status is EmbeddingStatus.MAKING
        if row is not None and waiting:
            row.files = [
                EmbeddingFile(position=position, role=role, filename=filename, file_sha256=stored.sha256)
                for position, (role, filename, stored) in enumerate(files)
            ]
            row.selection = selection.model_dump()
            row.commit_when_inspected = True
            row.status = EmbeddingStatus.INSPECTING
            row.attempts = 0
            row.error = None
    if not waiting:
        ledger.release(*(stored.sha256 for _, _, stored in files))
        return ()
    return (Job(JobKind.INSPECT, embedding_id),)
