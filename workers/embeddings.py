"""The row of an embedding that a job works on, for as long as it is the one that the job read."""

from sqlalchemy.orm import Session

from app.db.models import Embedding, EmbeddingFile, EmbeddingStatus, FileRole
from app.db.session import Sessions
from app.storage import Stored
from workers.failure import describe, raise_if_temporary


def waiting(session: Session, read: Embedding) -> Embedding | None:
    """Return the row, locked, if it still waits for the job that read it; None if it is gone or has gone on.

    A row that was chosen from anew may wait for the same kind of job again: for one of other vectors.
    """
    row = session.get(Embedding, read.id, with_for_update=True)
    return None if row is None or (row.status, row.selection) != (read.status, read.selection) else row


def fail(error: Exception, sessions: Sessions, read: Embedding) -> None:
    """Write the error's sentence into the row, if it still waits for the job that read it."""
    raise_if_temporary(error)
    with sessions.begin() as session:
        if (row := waiting(session, read)) is not None:
            row.status, row.error = EmbeddingStatus.FAILED, describe(error)


def files_of(vectors: tuple[str, Stored], *annotations: tuple[str, Stored]) -> list[EmbeddingFile]:
    """Return the rows of the files of an embedding that is made here, given by their names."""
    roles = [FileRole.VECTORS, *[FileRole.ANNOTATIONS] * len(annotations)]
    return [
        EmbeddingFile(position=position, role=role, filename=filename, file_sha256=stored.sha256)
        for position, (role, (filename, stored)) in enumerate(zip(roles, [vectors, *annotations], strict=True))
    ]
