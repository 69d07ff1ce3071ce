"""Names in the folder of a run: its worker writes these files, a backup copies them."""

from pathlib import Path

LOG = "log.txt"
MARKER = "complete"
"""Of a checkpoint, with the seals of its files. It is written last: a checkpoint without it was not finished."""


def finished_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a run that count."""
    return sorted(path.parent for path in folder.glob(f"checkpoint-*/{MARKER}"))
