"""The files of an embedding, where this process can read them."""

from app.db.models import Embedding, FileRole
from app.settings import Settings
from isoscope.files.matrix import Matrix, open_matrix
from isoscope.files.selection import Selection
from isoscope.files.upload import NamedFile, Upload
from isoscope.rows import require_measurable
from workers.files import fetch


def uploaded(embedding: Embedding, settings: Settings) -> Upload:
    """Return the files of an embedding in the order of their rows.

    Raises:
        NotFoundError: one is gone from the storage.
        UnavailableError: the storage cannot be reached, or refuses this worker.

    """
    by_role: dict[FileRole, list[NamedFile]] = {role: [] for role in FileRole}
    for file in embedding.files:
        path = fetch(file.file_sha256, f"{file.filename} of {embedding.name!r}", settings)
        by_role[file.role].append(NamedFile(path, file.filename))
    annotations = by_role[FileRole.ANNOTATIONS]
    return Upload(tuple(by_role[FileRole.VECTORS]), annotations[0] if annotations else None)


def open_embedding(embedding: Embedding, settings: Settings) -> Matrix:
    """Open the matrix that was chosen of the embedding's files."""
    matrix = open_matrix(uploaded(embedding, settings), Selection.model_validate(embedding.selection))
    require_measurable(matrix)
    return matrix
