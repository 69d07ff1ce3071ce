"""Folders of runs that train meanwhile, copied with checkpoints that are whole."""

import shutil
from pathlib import Path

from app.run_files import LOG, finished_checkpoints

TRIES = 10


def copy_run_folders(source: Path, target: Path) -> list[str]:
    """Copy what a run needs to go on: its checkpoints that count, the best weights, its log.

    Returns the names of the folders that changed under every try; their runs start afresh where there is no copy.
    """
    target.mkdir(parents=True)
    return [
        folder.name
        for folder in sorted(source.iterdir())
        if folder.is_dir() and not any(_copied(folder, target / folder.name) for _ in range(TRIES))
    ]


def _copied(folder: Path, target: Path) -> bool:
    """Whether the copy is of one state: a checkpoint is complete before an older one and its best weights go."""
    shutil.rmtree(target, ignore_errors=True)
    before = finished_checkpoints(folder)
    try:
        target.mkdir()
        for checkpoint in before:
            shutil.copytree(checkpoint, target / checkpoint.name)
        for path in (*folder.glob("best-*.safetensors"), folder / LOG):
            if path.is_file():
                shutil.copy2(path, target / path.name)
    except (FileNotFoundError, shutil.Error):
        return _gone(folder, target)
    if finished_checkpoints(folder) == before:
        return True
    return _gone(folder, target)


def _gone(folder: Path, target: Path) -> bool:
    """Forget a copy that is no good; whether there is nothing to copy any more."""
    shutil.rmtree(target, ignore_errors=True)
    return not folder.exists()
