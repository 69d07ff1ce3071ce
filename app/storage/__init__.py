"""Uploaded files named by their SHA-256, in a folder or in an S3 bucket with a local cache."""

from app.core.settings import Settings
from app.storage.storage import FolderStorage, Incoming, Storage, Stored

__all__ = ["Incoming", "Storage", "Stored", "open_storage"]


def open_storage(settings: Settings) -> Storage:
    """Return the configured storage, without connecting to it."""
    if settings.bucket is None:
        return FolderStorage(settings.files)
    # Imported here because most installations have no S3 and the web process must start fast.
    from app.storage.s3 import S3Storage  # noqa: PLC0415

    return S3Storage(settings.bucket, settings.cache, settings.cache_bytes)
