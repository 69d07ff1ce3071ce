"""Names of uploads, rows and methods for display."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import one_line, short
from isoscope.core.task import SPLIT_STEMS
from isoscope.files.upload_formats import Role, suffixes
from isotropy.catalog import METHODS

MAX_NAME_CHARACTERS, MAX_FILE_NAME_CHARACTERS = 200, 255
NON_ALPHANUMERIC = re.compile(r"[\W_]+")


def natural_sort_key(filename: str) -> list[str | int]:
    """Return a key that sorts shard-2 before shard-10."""
    parts = re.split(r"(\d+)", filename.casefold())  # text and numbers in turn
    return [int(part) if i % 2 else part for i, part in enumerate(parts)]


def base_name(filename: str) -> str:
    """Return the name of an uploaded file for display, without folders. Raise InvalidError if nothing is left."""
    name = PureWindowsPath(PurePosixPath(filename).name).name
    printable = "".join(character for character in name if character.isprintable()).strip()
    if not printable.strip("."):
        raise InvalidError("The upload has no file name; send the file with one, such as embeddings.npy.", "file")
    return printable[-MAX_FILE_NAME_CHARACTERS:]


def to_file_name(text: str) -> str:
    """Return a text as a portable file name: letters and digits of all scripts, joined by hyphens. It may be empty."""
    return NON_ALPHANUMERIC.sub("-", text).strip("-")


def clean_name(name: str | None, default: str) -> str:
    """Return a name, or a default if the name is blank, on one line and truncated to the maximum length."""
    return one_line(name or default)[:MAX_NAME_CHARACTERS] or default[:MAX_NAME_CHARACTERS]


def require_name(name: str, filename: str) -> str | None:
    """Return the name entered in a form, None if empty. Raise InvalidError if the file's name cannot replace it."""
    stem = PurePosixPath(filename).name.partition(".")[0]
    if not name.strip() and stem.lower() in SPLIT_STEMS:
        raise InvalidError(f"Enter a name. The file name {stem} does not tell data sets apart.", "name")
    return name or None


def file_stem(name: str) -> str:
    """Return a lowercase file name without suffixes of upload formats: word2vec-zca-whitening, soft-zca-eps-0.5."""
    suffix_pattern = rf"(?:{'|'.join(map(re.escape, suffixes(Role.VECTORS)))})\b"
    without_suffix = re.sub(suffix_pattern, "", name, flags=re.IGNORECASE)
    return re.sub(r"[^\w.]+", "-", without_suffix).strip("-.").lower() or "embedding"


def describe_method(method: str, parameters: Mapping[str, Any]) -> str:
    """Return a method, its first parameter and others that differ from the default: Soft ZCA whitening, eps 0.1."""
    entry = METHODS.get(method)
    defaults = {parameter.name: parameter.default for parameter in entry.parameters[1:]} if entry else {}
    settings = [
        f"{name} {short(value)}"
        for name, value in parameters.items()
        if value is not None and (name not in defaults or value != defaults[name])
    ]
    return ", ".join([entry.name if entry else method, *settings])
