"""Find the files that are no modules: beside ``app`` in a checkout, within it in an installed wheel."""

from pathlib import Path

_INSTALLED = Path(__file__).parent / "_files"
FILES = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).parents[1]
"""The folder that holds alembic, frontend and samples."""
