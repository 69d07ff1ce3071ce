"""An uploaded BEIR data set, read once and written in one form: texts with ids, and judgments by split."""

import json
from collections.abc import Iterator
from pathlib import Path

from isoscope.core.beir_layout import CORPUS, QUERIES
from isoscope.core.errors import InvalidError
from isoscope.files.beir import find_beir, unpack
from isoscope.files.contents import cell_text
from isoscope.files.ground_truth import read_qrels, write_qrels
from isoscope.files.strict import Frozen
from isoscope.files.table import Scalar
from isoscope.files.tables import TextsDescription, describe_texts, open_table
from isoscope.files.upload import NamedFile
from isoscope.files.upload_formats import Role
from isoscope.files.wording import blaming, listed

ID, TITLE, TEXT = "_id", "title", "text"


class BeirSplit(Frozen):
    """The judgments of a split, written to a file of their own."""

    name: str
    filename: str
    """In the folder."""
    judgments: int


class BeirDescription(Frozen):
    """What a data set holds; its files lie in the folder that was given."""

    corpus: TextsDescription
    queries: TextsDescription
    splits: list[BeirSplit]


def describe_beir(files: list[NamedFile], folder: Path) -> BeirDescription:
    """Read a data set, one zip file or its files, and write corpus, queries and judgments to ``folder``.

    A document's title goes before its text, as BEIR joins them. Run it in the sandbox.

    Raises:
        IsoscopeError: with the field ``file``, if a file cannot be read or is no part of such a data set.

    """
    if len(files) == 1:
        with blaming(files[0].filename, "file"):
            unpacked = folder / "unpacked"
            unpacked.mkdir()
            files = unpack(files[0].path, unpacked)
    found = find_beir(files)
    _write_texts(found.corpus, CORPUS, folder / CORPUS)
    _write_texts(found.queries, QUERIES, folder / QUERIES)
    splits = []
    for number, (name, file) in enumerate(found.qrels.items()):
        target = folder / f"qrels-{number}.jsonl"
        with blaming(file.filename, "file"):
            judgments = read_qrels(file.path, file.filename)
        if not judgments:
            raise InvalidError(f"{file.filename} judges nothing: expected lines of query-id, corpus-id, score.", "file")
        write_qrels(judgments, target)
        splits.append(BeirSplit(name=name, filename=target.name, judgments=len(judgments)))
    corpus, queries = (describe_texts(folder / name, name) for name in (CORPUS, QUERIES))
    return BeirDescription(corpus=corpus, queries=queries, splits=splits)


def read_beir_ids(file: NamedFile) -> list[str]:
    """Return the ids of a corpus or of queries, in the order of the file.

    Raises:
        InvalidError: the file is no such table, or a row has no id.

    """
    return [row[0] for row in _rows(file, [ID])]


def _write_texts(file: NamedFile, name: str, target: Path) -> None:
    with target.open("w", encoding="utf-8") as written:
        for called, *texts in _rows(file, [ID, TITLE, TEXT] if name == CORPUS else [ID, TEXT]):
            text = " ".join(one for one in texts if one.strip())
            written.write(f"{json.dumps({ID: called, TEXT: text})}\n")


def _rows(file: NamedFile, columns: list[str]) -> Iterator[list[str]]:
    """Yield the values of some columns; documents may lack a title."""
    with blaming(file.filename, "file"):
        table = open_table(file.path, file.filename, Role.TEXTS)
        if lacking := [name for name in columns if name not in table.columns and name != TITLE]:
            raise InvalidError(f"no key {lacking[0]!r} in its lines. Keys are: {listed(table.columns)}.")
        places = [table.columns.index(name) if name in table.columns else None for name in columns]
        for number, row in enumerate(table.rows(), 1):
            values = ["" if place is None else _text(row[place]) for place in places]
            if not values[0]:
                raise InvalidError(f"row {number:,} has no {ID!r}, by which qrels name it.")
            yield values


def _text(value: Scalar | None) -> str:
    return "" if value is None else cell_text(value)
