"""The data folder, the folder of temporary files, and the storage of uploads."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from uuid import uuid4

from app.operations.finding import Finding, ok, problem, warning
from app.settings import Settings
from app.storage import Storage, open_storage
from isoscope.core.errors import IsoscopeError
from isoscope.core.formatting import size


def folders(settings: Settings) -> Iterator[Finding]:
    """Whether there is a place for data, with room in it."""
    if not settings.root.exists():
        yield problem("data folder", f"{settings.root} does not exist.", "Make it with: isoscope migrate")
        return
    yield _folder("data folder", settings.root, settings)
    yield from _temporary(settings)


def storage(settings: Settings) -> Iterator[Finding]:
    """Whether a file can be kept, read back and removed."""
    if not settings.root.exists():
        return
    # Bytes that nobody else has: identical ones would share their file, and lose it here.
    content = f"isoscope doctor {uuid4()}".encode()
    try:
        kept = open_storage(settings)
        stored = kept.write(BytesIO(content), len(content))
        try:
            with _without_cache(settings) as elsewhere:
                read = elsewhere.local(stored.sha256).read_bytes()
        finally:
            kept.delete(stored.sha256)
    except (OSError, IsoscopeError) as error:
        advice = "See that it exists and that this user may write there; isoscope migrate makes missing folders."
        yield problem("storage", f"A file could not be kept and read back: {error}.", advice)
        return
    if read == content:
        yield ok("storage", "A file was written, read back and removed.")
    else:
        found = f"Of a file of {len(content)} bytes, {len(read)} others came back."
        yield problem("storage", found, "Let no two services share one folder or bucket.")


@contextmanager
def _without_cache(settings: Settings) -> Iterator[Storage]:
    """The storage as a machine sees it that has no copy of anything yet."""
    if settings.bucket is None:
        yield open_storage(settings)
        return
    with tempfile.TemporaryDirectory() as folder:
        other = Settings(**settings.model_dump() | {"data_dir": folder})
        other.cache.mkdir()
        yield open_storage(other)


def _folder(check: str, folder: Path, settings: Settings) -> Finding:
    try:
        # Written to, because permission bits do not tell of a read-only file system.
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-"):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        advice = "Give this user the folder, or name another one in ISOSCOPE_DATA_DIR."
        return problem(check, f"{folder} cannot be written to: {error.strerror}.", advice)
    if free < 2 * settings.max_upload_bytes:
        advice = "Make room, or lower ISOSCOPE_MAX_UPLOAD_BYTES: an upload is received first and then stored."
        largest = size(settings.max_upload_bytes)
        found = f"{folder} has {size(free)} free, less than twice the largest upload of {largest}."
        return warning(check, found, advice)
    return ok(check, f"{folder} is writable, {size(free)} free.")


def _temporary(settings: Settings) -> Iterator[Finding]:
    named = os.environ.get("TMPDIR")
    try:
        used = Path(tempfile.gettempdir())
    except FileNotFoundError:
        advice = "Set TMPDIR to a folder that this user may write to."
        yield problem("temporary files", "No folder for temporary files can be written to.", advice)
        return
    if named and used != Path(named).absolute():
        found = f"TMPDIR is {named}, which cannot be written to; {used} is used instead."
        yield warning("temporary files", found, f"Make the folder: mkdir -p {named}")
    yield _folder("temporary files", used, settings)
