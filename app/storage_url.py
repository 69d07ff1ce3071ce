"""What ISOSCOPE_STORAGE_URL names: a folder, or a bucket on S3."""

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

EXPECTED = "Expected file:///folder or s3://bucket/prefix"


class StoragePlace(NamedTuple):
    """Where uploads are kept; neither is set where the settings leave it to the data folder."""

    folder: Path | None = None
    bucket: str | None = None
    """``bucket`` or ``bucket/prefix``."""


def parse_storage_url(url: str) -> StoragePlace:
    """Read the setting. Raises ValueError with a sentence; it never repeats credentials, which logs would keep."""
    if not url:
        return StoragePlace()
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError(f"{EXPECTED}, got one that cannot be read.") from None
    if "@" in (parts.netloc if parts.scheme == "file" else url):
        raise ValueError(
            "The URL holds credentials, which would end up in logs. Leave them out, and set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY."
        )
    if parts.query or parts.fragment:
        raise ValueError(f"{EXPECTED}, got one with ? or #. An endpoint goes into AWS_ENDPOINT_URL.")
    if parts.scheme == "file":
        return StoragePlace(folder=_folder(url, parts.netloc, parts.path))
    if parts.scheme == "s3":
        return StoragePlace(bucket=_bucket(url, parts.netloc, parts.path))
    raise ValueError(f"{EXPECTED}, got {url!r}.")


def _folder(url: str, host: str, path: str) -> Path:
    if host not in ("", "localhost") or not path.strip("/"):
        raise ValueError(f"{EXPECTED}, got {url!r}. A folder's URL has three slashes and its path from the root.")
    return Path(unquote(path)).resolve()


def _bucket(url: str, bucket: str, prefix: str) -> str:
    if not bucket or ":" in bucket:
        raise ValueError(f"{EXPECTED}, got {url!r}. An endpoint goes into AWS_ENDPOINT_URL.")
    if find_spec("s3fs") is None:
        raise ValueError("Files on S3 need the package s3fs, which is not installed: pip install s3fs")
    return "/".join([bucket, *filter(None, prefix.split("/"))])
