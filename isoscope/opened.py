"""The files that a command names, opened as the page would propose to."""

from argparse import Namespace
from pathlib import Path

from isoscope.core.errors import InvalidError
from isoscope.files.contents import Contents
from isoscope.files.matrix import Matrix, select
from isoscope.files.selection import Selection, propose
from isoscope.files.upload import NamedFile, Upload, open_upload
from isoscope.rows import require_measurable


def open_files(paths: list[Path], given: Namespace, annotations: Path | None = None) -> Matrix:
    """Open the files as the page would propose to, but for what was named; labels and groups only if asked for."""
    for path in (*paths, *([annotations] if annotations else [])):
        if not path.is_file():
            what = f"{path} is a folder" if path.is_dir() else f"There is no file {path}"
            raise InvalidError(f"{what}: name a file that holds vectors.")
    beside = NamedFile(annotations, annotations.name) if annotations else None
    _, contents = open_upload(Upload(tuple(NamedFile(path, path.name) for path in paths), beside))
    selection = Selection(
        vectors=_vectors(given, contents), labels=given.labels, groups=given.groups, transpose=given.transpose
    )
    matrix = select(contents, selection)
    require_measurable(matrix)
    return matrix


def names_in(matrix: Matrix) -> str | None:
    """Return the column or array that likely names the rows; None where none does."""
    return matrix.selection.names or propose(matrix.contents).names


def _vectors(given: Namespace, contents: Contents) -> str | list[str]:
    """Return what was named, or else the likeliest."""
    named: list[str] | None = given.vectors
    if named is None:
        return propose(contents).vectors
    return ",".join(named) if contents.parts else named
