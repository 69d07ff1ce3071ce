"""Read a task from files: vectors with ids, and the queries, pairs or labels that judge them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import plural
from isoscope.files.contents import cell_text
from isoscope.files.detect import detect
from isoscope.files.table import Table
from isoscope.files.upload_formats import Role
from isoscope.files.wording import blaming, listed, shown
from isoscope.named_vectors import NamedVectors, read_vectors
from isotropy.tasks.search import Similarity
from isotropy.tasks.truth import DEPTH, Labels, Pairs, Queries, Truth, exact_neighbors

QUERY_NAMES = ("query-id", "query_id", "qid", "query")
DOCUMENT_NAMES = ("corpus-id", "corpus_id", "doc_id", "docid", "document", "corpus")
SCORE_NAMES = ("score", "relevance", "label", "rel", "similarity")
HELD_OUT = 1000
"""Rows of the corpus that are queries where there are no others, at most a fifth of all."""
FEWEST_ROWS = 50


@dataclass(frozen=True)
class TaskFiles:
    """The files of a task, and the columns that were named of them."""

    corpus: Sequence[Path]
    queries: Path | None = None
    qrels: Path | None = None
    pairs: Path | None = None
    labels: str | None = None
    annotations: Path | None = None
    vectors: str | list[str] | None = None
    ids: str | None = None
    groups: str | None = None

    def check(self) -> None:
        """Refuse files that make no task, or more than one.

        Raises:
            InvalidError: with the option at fault.

        """
        given = [name for name in ("qrels", "pairs", "labels") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidError(
                f"Choose one of {' and '.join(f'--{name}' for name in given)}: a task has one.", given[1]
            )
        if self.qrels is not None and self.queries is None:
            raise InvalidError("--qrels needs the vectors of the queries: name their file by --queries.", "queries")
        if self.queries is not None and given and self.qrels is None:
            raise InvalidError(f"--queries goes with --qrels or alone, not with --{given[0]}.", "queries")
        for path in (*self.corpus, self.queries, self.qrels, self.pairs, self.annotations):
            if path is not None and not path.is_file():
                what = f"{path} is a folder" if path.is_dir() else f"There is no file {path}"
                raise InvalidError(f"{what}: name a file.", "corpus")


@dataclass(frozen=True)
class LoadedTask:
    """A task in memory."""

    corpus: NDArray[np.float32]
    truth: Truth
    notes: list[str] = field(default_factory=list)
    """What was left out, in sentences."""


def load_task(files: TaskFiles, similarity: Similarity, seed: int = 0) -> LoadedTask:
    """Read the vectors and the ground truth of a task.

    Raises:
        InvalidError: the files make no task; the sentence says why.

    """
    files.check()
    of_rows = files.queries is None and files.pairs is None
    corpus = read_vectors(
        files.corpus,
        "corpus",
        annotations=files.annotations,
        vectors=files.vectors,
        ids=files.ids,
        labels=files.labels,
        groups=files.groups if of_rows else None,
    )
    if files.pairs is not None:
        return _with_pairs(corpus, files.pairs, files.groups)
    if files.labels is not None:
        return _with_labels(corpus)
    if files.queries is None:
        return _without_truth(corpus, similarity, seed)
    queries = read_vectors([files.queries], "queries", vectors=files.vectors, ids=files.ids, groups=files.groups)
    if queries.x.shape[1] != corpus.x.shape[1]:
        raise InvalidError(
            f"{queries.filename} has {queries.x.shape[1]:,} dimensions, {corpus.filename} {corpus.x.shape[1]:,}: "
            "encode both with the same model.",
            "queries",
        )
    if files.qrels is None:
        return LoadedTask(corpus.x, exact_neighbors(corpus.x, queries.x, corpus.ids, similarity))
    return _with_qrels(corpus, queries, files.qrels)


def _with_qrels(corpus: NamedVectors, queries: NamedVectors, path: Path) -> LoadedTask:
    table, name = _table(path, "qrels"), path.name
    columns = [_column(table, names, place) for place, names in enumerate((QUERY_NAMES, DOCUMENT_NAMES, SCORE_NAMES))]
    if columns[0] is None or columns[1] is None:
        raise InvalidError(
            f"{name} needs a column of query ids and one of document ids, got {listed(table.columns)}.", "qrels"
        )
    lines = list(_cells(table, columns))
    grades = [1 if columns[2] is None else _whole(line[2], name, number) for number, line in enumerate(lines, 1)]
    asked, found = queries.rows([line[0] for line in lines]), corpus.rows([line[1] for line in lines])
    if not (asked >= 0).any():
        raise _nothing_matches(name, "query", lines[0][0] if lines else "", queries, "qrels")
    if not (found >= 0).any():
        raise _nothing_matches(name, "document", lines[0][1], corpus, "qrels")
    relevant: list[dict[int, int]] = [{} for _ in queries.ids]
    for query, row, grade in zip(asked.tolist(), found.tolist(), grades, strict=True):
        if query >= 0 and row >= 0 and grade > 0:
            if row in relevant[query]:
                raise InvalidError(
                    f"{name} judges a document of {shown(queries.ids[query])} twice: once is enough.", "qrels"
                )
            relevant[query][row] = grade
    kept = np.array([bool(rows) for rows in relevant])
    if not kept.any():
        raise InvalidError(f"{name} names no relevant document: a score above 0 says that one is.", "qrels")
    notes = _unknown(int(((asked < 0) | (found < 0)).sum()), name)
    notes += _left_out(
        int((~kept).sum()),
        "query has no relevant document and is left out",
        "queries have no relevant document and are left out",
    )
    of_groups = None if queries.groups is None else _codes(np.array(queries.groups)[kept])
    truth = Queries(queries.x[kept], [rows for rows in relevant if rows], corpus.ids, of_groups)
    return LoadedTask(corpus.x, truth, notes)


def _with_pairs(corpus: NamedVectors, path: Path, groups: str | None) -> LoadedTask:
    table, name = _table(path, "pairs"), path.name
    score = next((column for column in table.columns if column.lower() in SCORE_NAMES), None)
    rest = [column for column in table.columns if column not in (score, groups)]
    if groups is not None and groups not in table.columns:
        raise InvalidError(f"{name} has no column {shown(groups)}. Columns are: {listed(table.columns)}.", "groups")
    if score is None and len(rest) > 2:
        score = rest.pop(2)
    if score is None or len(rest) < 2:
        raise InvalidError(f"{name} needs two columns of ids and one of scores, got {listed(table.columns)}.", "pairs")
    lines = list(_cells(table, [rest[0], rest[1], score, groups]))
    rows = np.stack([corpus.rows([line[side] for line in lines]) for side in (0, 1)], axis=1)
    known = (rows >= 0).all(axis=1)
    if not known.any():
        raise _nothing_matches(name, "row", lines[0][0] if lines else "", corpus, "pairs")
    scores = np.array([_number(line[2], name, number) for number, line in enumerate(lines, 1)])[known]
    if (scores == scores[0]).all():
        raise InvalidError(
            f"All pairs of {name} have the score {scores[0]:g}: a rank correlation needs several.", "pairs"
        )
    codes = None if groups is None else _codes(np.array([line[3] for line in lines])[known])
    notes = _unknown(int((~known).sum()), name)
    return LoadedTask(corpus.x, Pairs(rows[known], scores, codes), notes)


def _with_labels(corpus: NamedVectors) -> LoadedTask:
    labels = np.array(corpus.labels)
    rows = (labels != "").nonzero()[0]
    classes, codes = np.unique(labels[rows], return_inverse=True)
    if len(classes) < 2:
        only = f"only {shown(str(classes[0]))}" if len(classes) else "none"
        raise InvalidError(f"Expected labels of at least two classes, got {only}: choose another column.", "labels")
    groups = None if corpus.groups is None else _codes(np.array(corpus.groups)[rows])
    notes = _left_out(
        len(labels) - len(rows), "row has no label and is left out", "rows have no label and are left out"
    )
    return LoadedTask(corpus.x, Labels(rows, codes.astype(np.int64), corpus.ids, groups), notes)


def _without_truth(corpus: NamedVectors, similarity: Similarity, seed: int) -> LoadedTask:
    n = len(corpus.x)
    if n < FEWEST_ROWS:
        raise InvalidError(f"Expected at least {FEWEST_ROWS} rows where none are queries, got {n}.", "corpus")
    asked = np.zeros(n, bool)
    asked[np.random.default_rng(seed).permutation(n)[: max(min(HELD_OUT, n // 5), DEPTH)]] = True
    ids = [name for name, is_query in zip(corpus.ids, asked, strict=True) if not is_query]
    rest, queries = corpus.x[~asked], corpus.x[asked]
    notes = [f"There is no ground truth: {plural(len(queries), 'row')} of the corpus are left out of it, as queries."]
    return LoadedTask(rest, exact_neighbors(rest, queries, ids, similarity), notes)


def _table(path: Path, what: str) -> Table:
    with blaming(path.name, what):
        return detect(path, path.name, Role.ANNOTATIONS).open_table(path)


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
    if not np.isfinite(value):
        raise InvalidError(f"Row {row:,} of {name} has the score {shown(text)}: expected a number.")
    return value


def _whole(text: str, name: str, row: int) -> int:
    value = _number(text, name, row)
    if value != int(value):
        raise InvalidError(f"Row {row:,} of {name} has the relevance {shown(text)}: expected a whole number.", "qrels")
    return int(value)


def _nothing_matches(name: str, noun: str, first: str, vectors: NamedVectors, what: str) -> InvalidError:
    rows = vectors.column is None and vectors.filename.endswith(".npy")
    advice = "a .npy file holds no ids, so write these numbers" if rows else "choose their column by --ids"
    return InvalidError(
        f"No {noun} id of {name}, such as {shown(first)}, is one of {vectors.filename}, such as "
        f"{shown(vectors.ids[0])}. {vectors.called}: {advice}.",
        what,
    )


def _unknown(count: int, name: str) -> list[str]:
    return _left_out(
        count,
        f"row of {name} has an id that no vector has and is left out",
        f"rows of {name} have ids that no vector has and are left out",
    )


def _left_out(count: int, one: str, several: str) -> list[str]:
    """Return the sentence of what is not used; none where all is."""
    return [f"{count:,} {one if count == 1 else several}."] if count else []


def _codes(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the group of each value; each empty one is a group of its own."""
    alone = np.array([f"\0{row}" if value == "" else str(value) for row, value in enumerate(values.tolist())])
    return np.unique(alone, return_inverse=True)[1].astype(np.int64)
