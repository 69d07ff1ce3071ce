"""Ground truth of tasks in tables: relevant documents of queries, and pairs with scores."""

import json
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import blaming, listed, shown
from isoscope.files.contents import cell_text
from isoscope.files.detect import detect
from isoscope.files.row_ids import RowIds
from isoscope.files.table import Table
from isoscope.files.upload_formats import Role

QUERY_NAMES = ("query-id", "query_id", "qid", "query")
DOCUMENT_NAMES = ("corpus-id", "corpus_id", "doc_id", "docid", "document", "corpus")
SCORE_NAMES = ("score", "relevance", "label", "rel", "similarity")
LARGEST_GRADE = 1000
"""trec_eval takes memory for each grade up to the largest."""
QRELS = ("query-id", "corpus-id", "score")
PAIRS = ("one", "other", "score", "group")
"""Columns of the files that ``write_qrels`` and ``write_pairs`` write."""


class Judgment(NamedTuple):
    """How relevant a document is to a query; 0 is not."""

    query: str
    document: str
    grade: int


class ScoredPair(NamedTuple):
    """How alike two rows are."""

    one: str
    other: str
    score: float
    group: str = ""
    """Of pairs that depend on each other; empty where none is known."""


def read_qrels(path: Path, filename: str) -> list[Judgment]:
    """Return the judgments of a table of query ids, document ids and relevance; without a score each is relevant.

    Raises:
        InvalidError: the table holds no such thing.

    """
    table = _table(path, filename, "qrels")
    columns = [_column(table, names, place) for place, names in enumerate((QUERY_NAMES, DOCUMENT_NAMES, SCORE_NAMES))]
    query, document, score = columns
    if query is None or document is None:
        raise InvalidError(
            f"{filename} needs a column of query ids and one of document ids, got {listed(table.columns)}.", "qrels"
        )
    return [
        Judgment(line[0], line[1], 1 if score is None else _whole(line[2], filename, number))
        for number, line in enumerate(_cells(table, columns), 1)
    ]


def read_pairs(path: Path, filename: str, groups: str | None = None) -> list[ScoredPair]:
    """Return the pairs of a table of two ids and a score; ``groups`` is a column of pairs that depend on each other.

    Raises:
        InvalidError: the table holds no such thing.

    """
    table = _table(path, filename, "pairs")
    score = next((column for column in table.columns if column.lower() in SCORE_NAMES), None)
    rest = [column for column in table.columns if column not in (score, groups)]
    if groups is not None and groups not in table.columns:
        raise InvalidError(f"{filename} has no column {shown(groups)}. Columns are: {listed(table.columns)}.", "groups")
    if score is None and len(rest) > 2:
        score = rest.pop(2)
    if score is None or len(rest) < 2:
        raise InvalidError(
            f"{filename} needs two columns of ids and one of scores, got {listed(table.columns)}.", "pairs"
        )
    return [
        ScoredPair(line[0], line[1], _number(line[2], filename, number), line[3])
        for number, line in enumerate(_cells(table, [rest[0], rest[1], score, groups]), 1)
    ]


def corpus_and_query_rows(
    corpus: RowIds, queries: RowIds, judgments: Sequence[Judgment], filename: str, advice: str
) -> tuple[list[int], list[int]]:
    """Return the rows of queries and corpus that judgments name, -1 where an id is unknown.

    Raises:
        InvalidError: none is known, so they are of other vectors; with ``advice`` on what to do.

    """
    asked = queries.rows([one.query for one in judgments])
    found = corpus.rows([one.document for one in judgments])
    first = judgments[0] if judgments else Judgment("", "", 0)
    if max(asked, default=-1) < 0:
        raise _nothing_matches(filename, "query", first.query, queries, "qrels", advice)
    if max(found) < 0:
        raise _nothing_matches(filename, "document", first.document, corpus, "qrels", advice)
    return asked, found


def pair_rows(corpus: RowIds, pairs: Sequence[ScoredPair], filename: str, advice: str) -> list[tuple[int, int]]:
    """Return the two rows that each pair names, -1 where an id is unknown.

    Raises:
        InvalidError: no pair has two known ids; with ``advice`` on what to do.

    """
    one, other = corpus.rows([pair.one for pair in pairs]), corpus.rows([pair.other for pair in pairs])
    found = list(zip(one, other, strict=True))
    if max(map(min, found), default=-1) < 0:
        raise _nothing_matches(filename, "row", pairs[0].one if pairs else "", corpus, "pairs", advice)
    return found


def _nothing_matches(filename: str, noun: str, first: str, ids: RowIds, what: str, advice: str) -> InvalidError:
    if ids.column is None and ids.filename.endswith(".npy"):
        advice = "a .npy file holds no ids, so write these numbers"
    return InvalidError(
        f"No {noun} id of {filename}, such as {shown(first)}, is one of {ids.filename}, such as "
        f"{shown(ids.values[0])}. {ids.called}: {advice}.",
        what,
    )


def write_qrels(judgments: Iterable[Judgment], path: Path) -> None:
    """Write judgments as JSON lines that ``read_qrels`` reads."""
    _write(QRELS, judgments, path)


def write_pairs(pairs: Iterable[ScoredPair], path: Path) -> None:
    """Write pairs as JSON lines that ``read_pairs`` reads, the groups in the column ``group``."""
    _write(PAIRS, pairs, path)


def _write(columns: Sequence[str], rows: Iterable[Sequence[str | float]], path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(dict(zip(columns, row, strict=True)))}\n" for row in rows)


def _table(path: Path, filename: str, what: str) -> Table:
    with blaming(filename, what):
        return detect(path, filename, Role.ANNOTATIONS).open_table(path)


def _column(table: Table, names: Sequence[str], place: int) -> str | None:
    """Return the column of one of these names, or else the one in that place that has none of another's."""
    named = next((column for column in table.columns if column.lower() in names), None)
    if named is not None or place >= len(table.columns):
        return named
    taken = {*QUERY_NAMES, *DOCUMENT_NAMES, *SCORE_NAMES} - {*names}
    return None if table.columns[place].lower() in taken else table.columns[place]


def _cells(table: Table, columns: Sequence[str | None]) -> Iterator[list[str]]:
    places = [None if column is None else table.columns.index(column) for column in columns]
    for row in table.rows():
        yield ["" if place is None else cell_text(row[place]) for place in places]


def _number(text: str, name: str, row: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise InvalidError(f"Row {row:,} of {name} has the score {shown(text)}: expected a number.")
    return value


def _whole(text: str, name: str, row: int) -> int:
    value = _number(text, name, row)
    if value != int(value):
        raise InvalidError(f"Row {row:,} of {name} has the relevance {shown(text)}: expected a whole number.", "qrels")
    if value > LARGEST_GRADE:
        raise InvalidError(
            f"Row {row:,} of {name} has the relevance {shown(text)}: expected at most {LARGEST_GRADE:,}.", "qrels"
        )
    return int(value)
