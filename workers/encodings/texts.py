"""The texts of an encoding: read, the empty ones left out, drawn, and written down beside their vectors."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.db.encoding import EncodingConfig
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import shown, storable
from isoscope.files.columns import label_text
from isoscope.files.contents import cell_text
from isoscope.files.table import Scalar
from isoscope.files.tables import read_columns
from isoscope.files.text import Quoting
from isoscope.files.upload_formats import Role
from workers.files import ID, LABEL, NAME

NAME_CHARACTERS = 80
BETWEEN = " / "
"""The two texts of a pair, in a name."""


@dataclass(frozen=True)
class Texts:
    """The texts to encode, in the order of the file."""

    rows: list[tuple[str, ...]]
    """One text or a pair for each."""
    numbers: list[int]
    """The row of each in the file, from 1."""
    labels: list[str] | None
    """One for each; empty where the file has none."""
    ids: list[str] | None
    """What ground truth calls each; None where the file has no column of ids."""
    n_empty: int
    """Rows of the file that were left out because a text of theirs is empty."""

    def __len__(self) -> int:
        return len(self.rows)

    def annotations(self) -> dict[str, Iterable[str]]:
        """Return the columns that name and label the rows, and their ids."""
        given = {NAME: map(_name, self.rows), LABEL: self.labels, ID: self.ids}
        return {column: values for column, values in given.items() if values is not None}


def load_texts(
    path: Path, filename: str, config: EncodingConfig, quoting: Quoting | None = None, ids: str | None = None
) -> Texts:
    """Return the texts of a file that are not empty, or as many of them as were asked for, drawn by the seed.

    ``ids`` is the column of their ids.

    Raises:
        InvalidError: the file cannot be read, lacks a column, or holds no text in those chosen.

    """
    named = [one for one in (config.label_column, ids) if one]
    columns = read_columns(path, filename, list(dict.fromkeys([*config.text_columns, *named])), Role.TEXTS, quoting)
    pairs = list(zip(*(columns[name] for name in config.text_columns), strict=True))
    full = np.array([i for i, texts in enumerate(pairs) if not any(map(_is_empty, texts))], dtype=np.int64)
    if not len(full):
        sought = " and ".join(map(shown, config.text_columns))
        raise InvalidError(
            f"None of the {len(pairs):,} rows of {filename} has text in {sought}: choose another column.",
            "text_columns",
        )
    kept = full
    if config.max_rows is not None and config.max_rows < len(full):
        kept = np.sort(np.random.default_rng(config.seed).choice(full, config.max_rows, replace=False))
    labels = columns[config.label_column] if config.label_column else None
    return Texts(
        rows=[tuple(str(text) for text in pairs[i]) for i in kept],
        numbers=[int(i) + 1 for i in kept],
        labels=None if labels is None else [_label(labels[i]) for i in kept],
        ids=None if ids is None else [cell_text(columns[ids][i]) for i in kept],
        n_empty=len(pairs) - len(full),
    )


def _is_empty(text: Scalar | None) -> bool:
    return text is None or not str(text).strip()


def _label(value: Scalar | None) -> str:
    return "" if value is None else storable(label_text(value))


def _name(texts: tuple[str, ...]) -> str:
    """The beginning of a text in one line; of a pair, of both."""
    each = NAME_CHARACTERS // len(texts)
    return BETWEEN.join(_cut(storable(" ".join(text.split())), each) for text in texts)


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"
