"""The inspect job: look into uploaded files, where looking can do no harm."""

from collections.abc import Sequence

from app.core.settings import Settings
from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import Embedding, EmbeddingStatus
from app.db.session import Sessions
from app.sandbox import read_in_sandbox
from isoscope.files.matrix import Inspection, Matrix, inspect, open_matrix
from isoscope.files.selection import Selection
from isoscope.files.upload import Upload
from isoscope.rows import require_measurable
from workers.files import fetch
from workers.job_rows import fail, job_sessions, waiting


def fetch_upload(embedding: Embedding, settings: Settings) -> Upload:
    """Return the files of an embedding in the order of their rows.

    Raises:
        NotFoundError: one is gone from the storage.
        UnavailableError: the storage cannot be reached, or refuses this worker.

    """
    return embedding.upload(lambda file: fetch(file.file_sha256, f"{file.filename} of {embedding.name!r}", settings))


def open_embedding(embedding: Embedding, settings: Settings) -> Matrix:
    """Open the matrix that was chosen of the embedding's files."""
    matrix = open_matrix(fetch_upload(embedding, settings), Selection.model_validate(embedding.selection))
    require_measurable(matrix)
    return matrix


def inspect_embedding(embedding_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Write what the files hold into the embedding's row, a draft from then on; measuring follows if it was asked for.

    They are read in a further process, so that one made to exhaust memory or time ends there, as a sentence.
    """
    sessions = job_sessions(settings)
    with sessions() as session:
        embedding = session.get(Embedding, embedding_id)
    if embedding is None or embedding.status is not EmbeddingStatus.INSPECTING:
        return ()
    try:
        inspection = _inspect_files(embedding, settings)
    except Exception as error:  # noqa: BLE001 - whatever it is belongs into the row, not into a retry
        fail(error, sessions, embedding)
        return ()
    return _store_inspection(embedding, inspection, sessions)


def _inspect_files(embedding: Embedding, settings: Settings) -> Inspection:
    chosen = None if embedding.selection is None else Selection.model_validate(embedding.selection)
    return read_in_sandbox(settings, inspect, fetch_upload(embedding, settings), chosen)


def _store_inspection(waiting_embedding: Embedding, inspection: Inspection, sessions: Sessions) -> Sequence[Job]:
    with sessions.begin() as session:
        if (embedding := waiting(session, waiting_embedding)) is None:
            return ()
        embedding.inspection = inspection.model_dump(mode="json")
        embedding.selection = inspection.selection.model_dump(mode="json")
        embedding.format = inspection.format
        embedding.n, embedding.d = inspection.n, inspection.d
        if embedding.encoding_id is None:
            embedding.layer = inspection.layer
        embedding.error = None
        if not embedding.commit_when_inspected:
            embedding.status = EmbeddingStatus.DRAFT
            return ()
        embedding.status = EmbeddingStatus.MEASURING
        embedding.attempts = 0
        return (Job(job_kinds.MEASURE, waiting_embedding.id),)
