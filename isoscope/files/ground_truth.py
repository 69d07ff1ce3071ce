"""Ground truth of tasks by row ids: relevant documents of queries, or pairs with scores.

It is read from tables, checked against the ids of embeddings, and written as JSON lines.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import listed, plural, prefixed_errors, quote
from isoscope.files.contents import cell_text
from isoscope.files.matrix import Matrix, open_matrix, select
from isoscope.files.selection import ID_NAMES, Selection, propose
from isoscope.files.strict import Frozen
from isoscope.files.table import Table
from isoscope.files.upload import NamedFile, Upload, open_upload
from isoscope.files.upload_formats import Role, detect

QUERY_NAMES = ("query-id", "query_id", "qid", "query")
DOCUMENT_NAMES = ("corpus-id", "corpus_id", "doc_id", "docid", "document", "corpus")
SCORE_NAMES = ("score", "relevance", "label", "rel", "similarity")
# trec_eval allocates memory for every grade up to the largest.
MAX_GRADE = 1000
QRELS = ("query-id", "corpus-id", "score")
# Columns of the JSON lines that ``read_qrels`` and ``read_pairs`` read back.
PAIRS = ("one", "other", "score", "group")
SHOWN_LINES = 5
SHOWN_IDS = 5
COLUMN_ADVICE = "choose another column of ids"


def id_column(columns: Iterable[str]) -> str | None:
    name_by_lowercase = {name.lower(): name for name in reversed(list(columns))}
    return next((name_by_lowercase[name] for name in ID_NAMES if name in name_by_lowercase), None)


@dataclass(frozen=True)
class RowIds:
    """Ids of the rows of a file; without a column they are row numbers."""

    filename: str
    values: list[str]
    column: str | None

    def rows(self, ids: Sequence[str]) -> list[int]:
        """Return the row of each id, -1 if there is none."""
        row_by_id = {name: row for row, name in enumerate(self.values)}
        return [row_by_id.get(name, -1) for name in ids]

    @property
    def id_description(self) -> str:
        numbering = f"Rows of {self.filename} are called by their numbers from 0"
        return numbering if self.column is None else f"Ids of {self.filename} are those of {quote(self.column)}"

    def require_unique(self, field: str, advice: str) -> None:
        name, count = Counter(self.values).most_common(1)[0]
        if count > 1:
            raise InvalidError(
                f"{quote(name)} names {count:,} rows of {self.filename}: an id must name one row. Remove the others, "
                f"or {advice}.",
                field,
            )

    def without_repeats(self) -> "RowIds":
        """Return these ids, or row numbers if any id is repeated, because repeated ids cannot break ties."""
        if len(set(self.values)) == len(self.values):
            return self
        return RowIds(self.filename, [str(row) for row in range(len(self.values))], None)


def read_ids(matrix: Matrix, filename: str, requested: str | None, names: str | None, field: str = "ids") -> RowIds:
    """Return the ids of a matrix's rows: the requested column, else the likeliest one, else row numbers.

    ``names`` is the column of row names, preferred to row numbers. Errors have the field ``field``.
    """
    annotations = {
        annotation.name: annotation for annotation in matrix.contents.annotations if annotation.n == matrix.n
    }
    if requested is not None and requested not in annotations:
        columns = f"Columns are: {listed(annotations)}." if annotations else "It has no such columns."
        raise InvalidError(f"{filename} has no column {quote(requested)} of ids. {columns}", field)
    column = requested or id_column(annotations) or names
    numbers = range(matrix.n) if matrix.file_rows is None else matrix.file_rows
    values = [str(row) for row in numbers] if column is None else list(matrix.contents.values(column))
    return RowIds(filename, values, column)


@dataclass(frozen=True)
class NamedVectors:
    """Vectors in memory with the ids of their rows."""

    filename: str
    x: NDArray[np.float32]
    row_ids: RowIds
    groups: list[str] | None
    labels: list[str] | None

    @property
    def ids(self) -> list[str]:
        return self.row_ids.values


def read_vectors(
    paths: Sequence[Path],
    field: str,
    *,
    annotations: Path | None = None,
    vectors: str | list[str] | None = None,
    ids: str | None = None,
    labels: str | None = None,
    groups: str | None = None,
) -> NamedVectors:
    """Read vectors into memory, with ids of their rows; files after the first continue its rows.

    ``vectors`` and ``ids`` default to the likeliest. Errors have the field ``field``, "corpus" or "queries".
    """
    annotation_file = NamedFile(annotations, annotations.name) if annotations else None
    _, contents = open_upload(Upload(tuple(NamedFile(path, path.name) for path in paths), annotation_file))
    proposal = propose(contents)
    vectors = vectors or proposal.vectors
    if isinstance(vectors, list) and contents.parts:
        vectors = ",".join(vectors)
    row_ids = read_ids(select(contents, Selection(vectors=vectors)), paths[0].name, ids, proposal.names, field)
    row_ids.require_unique(field, "choose the column of ids by --ids")
    matrix = select(contents, Selection(vectors=vectors, names=row_ids.column, labels=labels, groups=groups))
    return vectors_of(matrix, row_ids, field)


def vectors_of(matrix: Matrix, row_ids: RowIds, field: str) -> NamedVectors:
    """Read a matrix into memory; raise InvalidError if it holds NaN or infinity."""
    x = np.empty((matrix.n, matrix.d), np.float32)
    start = 0
    for chunk in matrix.chunks():
        with np.errstate(over="ignore"):  # values beyond float32 become infinite, which is checked below
            x[start : start + len(chunk)] = chunk
        start += len(chunk)
    if start != matrix.n:
        raise InvalidError(
            f"{row_ids.filename} has {plural(start, 'row')}, expected {matrix.n:,}: upload it again.", field
        )
    n_invalid = int((~np.isfinite(x).all(axis=1)).sum())
    if n_invalid:
        raise InvalidError(
            f"{plural(n_invalid, 'row')} of {row_ids.filename} hold NaN, infinity or numbers beyond float32: remove "
            "them.",
            field,
        )
    groups = matrix.groups()
    return NamedVectors(row_ids.filename, x, row_ids, None if groups is None else list(groups), matrix.labels())


class Judgment(NamedTuple):
    """How relevant a document is to a query; grade 0 is not relevant."""

    query: str
    document: str
    grade: int


class ScoredPair(NamedTuple):
    """Similarity of two rows, and the group of dependent pairs that this one is in, if any."""

    first: str
    second: str
    score: float
    group: str = ""


def read_qrels(path: Path, filename: str) -> list[Judgment]:
    """Return the judgments in a table of query ids, document ids and relevance, by default 1."""
    table = _open_table(path, filename, "qrels")
    columns = [
        _find_column(table, names, index) for index, names in enumerate((QUERY_NAMES, DOCUMENT_NAMES, SCORE_NAMES))
    ]
    query, document, score = columns
    if query is None or document is None:
        raise InvalidError(
            f"{filename} needs a column of query ids and one of document ids, got {listed(table.columns)}.", "qrels"
        )
    judgments = []
    for number, (query_id, document_id, text) in enumerate(_read_cells(table, columns), 1):
        grade = 1.0 if score is None else _parse_score(text, filename, number)
        if grade != int(grade) or grade > MAX_GRADE:
            expected = "a whole number" if grade != int(grade) else f"at most {MAX_GRADE:,}"
            raise InvalidError(
                f"Row {number:,} of {filename} has the relevance {quote(text)}: expected {expected}.", "qrels"
            )
        judgments.append(Judgment(query_id, document_id, int(grade)))
    return judgments


def read_pairs(path: Path, filename: str, groups: str | None = None) -> list[ScoredPair]:
    """Return the pairs of a table of two ids and a score; ``groups`` is a column of dependent pairs."""
    table = _open_table(path, filename, "pairs")
    score = next((column for column in table.columns if column.lower() in SCORE_NAMES), None)
    id_columns = [column for column in table.columns if column not in (score, groups)]
    if groups is not None and groups not in table.columns:
        raise InvalidError(f"{filename} has no column {quote(groups)}. Columns are: {listed(table.columns)}.", "groups")
    if score is None and len(id_columns) > 2:
        score = id_columns.pop(2)
    if score is None or len(id_columns) < 2:
        raise InvalidError(
            f"{filename} needs two columns of ids and one of scores, got {listed(table.columns)}.", "pairs"
        )
    rows = _read_cells(table, [id_columns[0], id_columns[1], score, groups])
    return [
        ScoredPair(first, second, _parse_score(text, filename, number), group)
        for number, (first, second, text, group) in enumerate(rows, 1)
    ]


def corpus_and_query_rows(
    corpus: RowIds, queries: RowIds, judgments: Sequence[Judgment], filename: str, advice: str
) -> tuple[list[int], list[int]]:
    """Return the query and corpus rows of judgments, -1 for an unknown id. Raises InvalidError if all are unknown."""
    query_rows = queries.rows([judgment.query for judgment in judgments])
    document_rows = corpus.rows([judgment.document for judgment in judgments])
    example = judgments[0] if judgments else Judgment("", "", 0)
    if max(query_rows, default=-1) < 0:
        raise _no_match_error(filename, "query", example.query, queries, "qrels", advice)
    if max(document_rows) < 0:
        raise _no_match_error(filename, "document", example.document, corpus, "qrels", advice)
    return query_rows, document_rows


def pair_rows(corpus: RowIds, pairs: Sequence[ScoredPair], filename: str, advice: str) -> list[tuple[int, int]]:
    """Return the two rows of each pair, -1 for an unknown id. Raises InvalidError if no pair has two known ids."""
    firsts, seconds = corpus.rows([pair.first for pair in pairs]), corpus.rows([pair.second for pair in pairs])
    rows = list(zip(firsts, seconds, strict=True))
    if max(map(min, rows), default=-1) < 0:
        raise _no_match_error(filename, "row", pairs[0].first if pairs else "", corpus, "pairs", advice)
    return rows


def _no_match_error(filename: str, noun: str, example: str, ids: RowIds, field: str, advice: str) -> InvalidError:
    if ids.column is None and ids.filename.endswith(".npy"):
        advice = "a .npy file holds no ids, so write these numbers"
    return InvalidError(
        f"No {noun} id of {filename}, such as {quote(example)}, is one of {ids.filename}, such as "
        f"{quote(ids.values[0])}. {ids.id_description}: {advice}.",
        field,
    )


def write_lines(columns: Sequence[str], rows: Iterable[Sequence[str | float]], path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(dict(zip(columns, row, strict=True)))}\n" for row in rows)


def _open_table(path: Path, filename: str, field: str) -> Table:
    with prefixed_errors(filename, field):
        return detect(path, filename, Role.ANNOTATIONS).open_table(path)


def _find_column(table: Table, names: Sequence[str], index: int) -> str | None:
    """Return the column with one of these names, else the one at ``index`` unless its name has another role."""
    named_column = next((column for column in table.columns if column.lower() in names), None)
    if named_column is not None or index >= len(table.columns):
        return named_column
    reserved = {*QUERY_NAMES, *DOCUMENT_NAMES, *SCORE_NAMES} - {*names}
    return None if table.columns[index].lower() in reserved else table.columns[index]


def _read_cells(table: Table, columns: Sequence[str | None]) -> Iterator[list[str]]:
    for row in table.rows([column for column in columns if column is not None]):
        texts = iter(map(cell_text, row))
        yield ["" if column is None else next(texts) for column in columns]


def _parse_score(text: str, filename: str, row: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise InvalidError(f"Row {row:,} of {filename} has the score {quote(text)}: expected a number.")
    return value


Noun = Literal["query", "document", "row"]


class UnknownIds(Frozen):
    """Ids of ground truth that no row has."""

    noun: Noun
    count: int
    examples: list[str]


class TruthPreview(Frozen):
    """Contents of a ground truth file, and how many lines have known ids."""

    lines: int
    used: int
    head: list[list[str]]
    unknown: list[UnknownIds]
    ids: str
    query_ids: str | None = None
    score_range: tuple[float, float] | None = None
    """Of pairs whose scores do not say which match, as 0 and 1 do; else null."""


@dataclass(frozen=True)
class NamedRows:
    """The files of an embedding, its selection, and the column of ids if one was named."""

    upload: Upload
    selection: Selection
    name: str
    ids: str | None = None

    def read(self, field: str) -> RowIds:
        row_ids = read_ids(open_matrix(self.upload, self.selection), self.name, self.ids, self.selection.names, field)
        row_ids.require_unique(field, COLUMN_ADVICE)
        return row_ids


def check_qrels(path: Path, filename: str, corpus: NamedRows, queries: NamedRows, target: Path) -> TruthPreview:
    """Check relevant documents against corpus and queries, and write them to ``target`` as JSON lines."""
    judgments = read_qrels(path, filename)
    document_ids, query_ids = corpus.read("ids"), queries.read("query_ids")
    query_rows, document_rows = corpus_and_query_rows(document_ids, query_ids, judgments, filename, COLUMN_ADVICE)
    write_lines(QRELS, judgments, target)
    return TruthPreview(
        lines=len(judgments),
        used=sum(min(pair) >= 0 for pair in zip(query_rows, document_rows, strict=True)),
        head=_first_lines(judgments),
        unknown=[
            *_unknown_ids("query", [judgment.query for judgment in judgments], query_rows),
            *_unknown_ids("document", [judgment.document for judgment in judgments], document_rows),
        ],
        ids=f"{document_ids.id_description}.",
        query_ids=f"{query_ids.id_description}.",
    )


def check_pairs(path: Path, filename: str, groups: str | None, corpus: NamedRows, target: Path) -> TruthPreview:
    """Check pairs with scores against the rows, and write them to ``target`` as JSON lines."""
    pairs = read_pairs(path, filename, groups)
    document_ids = corpus.read("ids")
    rows = pair_rows(document_ids, pairs, filename, COLUMN_ADVICE)
    write_lines(PAIRS, pairs, target)
    return preview_pairs(pairs, rows, f"{document_ids.id_description}.")


def preview_pairs(pairs: Sequence[ScoredPair], rows: Sequence[tuple[int, int]], ids: str) -> TruthPreview:
    """Describe pairs with the rows of their texts, -1 where there is none; ``ids`` says which ids name rows."""
    names = [name for pair in pairs for name in (pair.first, pair.second)]
    name_rows = [row for pair in rows for row in pair]
    scores = {pair.score for pair in pairs}
    return TruthPreview(
        lines=len(pairs),
        used=sum(min(pair) >= 0 for pair in rows),
        head=_first_lines(pairs),
        unknown=_unknown_ids("row", names, name_rows),
        ids=ids,
        score_range=None if scores <= {0, 1} else (min(scores), max(scores)),
    )


def _first_lines(lines: Sequence[Judgment | ScoredPair]) -> list[list[str]]:
    return [[first[:80], second[:80], f"{score:g}"] for first, second, score, *_ in lines[:SHOWN_LINES]]


def _unknown_ids(noun: Noun, ids: Iterable[str], rows: Iterable[int]) -> list[UnknownIds]:
    distinct = list(dict.fromkeys(name for name, row in zip(ids, rows, strict=True) if row < 0))
    examples = [name[:80] for name in distinct[:SHOWN_IDS]]
    return [UnknownIds(noun=noun, count=len(distinct), examples=examples)] if distinct else []
