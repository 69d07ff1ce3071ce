"""The files of an embedding, where this process can read them."""

from app.db.models import Embedding, EmbeddingFile, FileRole
from app.errors import NotFoundError
from app.formats.upload import NamedFile, Upload
from app.settings import Settings
from app.storage import Storage


def uploaded(embedding: Embedding, settings: Settings) -> Upload:
    """Return the files of an embedding in the order of their rows.

    Raises:
        NotFoundError: one is gone from the storage.

    """
    storage = Storage(settings.files)

    def named(file: EmbeddingFile) -> NamedFile:
        path = storage.path(file.file_sha256)
        if not path.exists():
            raise NotFoundError(
                f"The file {file.filename} of {embedding.name!r} is gone from the storage; upload it again."
            )
        return NamedFile(path, file.filename)

    by_role = {role: [named(file) for file in embedding.files if file.role is role] for role in FileRole}
    annotations = by_role[FileRole.ANNOTATIONS]
    return Upload(tuple(by_role[FileRole.VECTORS]), annotations[0] if annotations else None)
