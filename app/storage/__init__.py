"""Uploaded bytes by the hash of their content: in a folder, or in a bucket on S3 with a cache on this machine."""

from app.core.settings import Settings
from app.storage.storage import FolderStorage, Incoming, Storage, Stored

__all__ = ["Incoming", "Storage", "Stored", "open_storage"]


def open_storage(settings: Settings) -> Storage:
    """Return the storage of the settings, without connecting."""
    if settings.bucket is None:
        return FolderStorage(settings.files)
    # Imported here because most installations have no S3 and the web process must start fast.
    from app.storage.s3 import S3Storage  # noqa: PLC0415

    return S3Storage(settings.bucket, settings.cache, settings.cache_bytes)
