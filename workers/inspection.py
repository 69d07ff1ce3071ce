"""The inspect job: look into uploaded files, where looking can do no harm."""

from collections.abc import Sequence

from app.db import job_kinds
from app.db.models import Embedding, EmbeddingStatus
from app.db.session import Sessions
from app.queue import Job
from app.sandbox import run_in_sandbox
from app.settings import Settings
from isoscope.files.inspection import Inspection, inspect
from isoscope.files.selection import Selection
from workers.embeddings import fail, waiting
from workers.sessions import job_sessions
from workers.upload import uploaded


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
        found = _look(embedding, settings)
    except Exception as error:  # noqa: BLE001 - whatever it is belongs into the row, not into a retry
        fail(error, sessions, embedding)
        return ()
    return _store(embedding, found, sessions)


def _look(embedding: Embedding, settings: Settings) -> Inspection:
    chosen = None if embedding.selection is None else Selection.model_validate(embedding.selection)
    return run_in_sandbox(
        inspect,
        uploaded(embedding, settings),
        chosen,
        memory_bytes=settings.parse_memory_bytes,
        seconds=settings.parse_seconds,
    )


def _store(read: Embedding, found: Inspection, sessions: Sessions) -> Sequence[Job]:
    with sessions.begin() as session:
        if (embedding := waiting(session, read)) is None:
            return ()
        embedding.inspection = found.model_dump(mode="json")
        embedding.selection = found.selection.model_dump(mode="json")
        embedding.format = found.format
        embedding.n, embedding.d = found.n, found.d
        embedding.error = None
        if not embedding.commit_when_inspected:
            embedding.status = EmbeddingStatus.DRAFT
            return ()
        embedding.status = EmbeddingStatus.MEASURING
        embedding.attempts = 0
        return (Job(job_kinds.MEASURE, read.id),)
