"""Read a task from files: vectors with ids, and queries, pairs or labels."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isoscope.core.beir_layout import ZIP_SUFFIX
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import plural, quote
from isoscope.files.beir import ID, choose_split, open_beir, read_beir_ids
from isoscope.files.ground_truth import (
    Judgment,
    NamedVectors,
    RowIds,
    ScoredPair,
    corpus_and_query_rows,
    pair_rows,
    read_pairs,
    read_qrels,
    read_vectors,
)
from isoscope.files.upload import NamedFile, require_readable
from isotropy.catalog import FEWEST_GROUPS, Similarity
from isotropy.tasks.truth import DEPTH, LabelTruth, PairTruth, QueryTruth, Truth, exact_neighbors

IDS_ADVICE = "choose their column by --ids"
MAX_HELD_OUT = 1000  # Maximum number of corpus rows held out as queries; at most a fifth of all rows
MIN_ROWS = 5 * FEWEST_GROUPS  # Minimum number of rows: a fifth of them gives each split enough queries


@dataclass(frozen=True)
class TaskFiles:
    """The files of a task, and the columns to use."""

    corpus: Sequence[Path]
    queries: Path | None = None
    qrels: Path | None = None
    pairs: Path | None = None
    labels: str | None = None
    annotations: Path | None = None
    vectors: str | list[str] | None = None
    ids: str | None = None
    groups: str | None = None
    split: str | None = None  # Split of a BEIR data set; None selects test, else the first

    def check(self) -> None:
        """Raise InvalidError, with the option at fault, unless the files make exactly one task."""
        named_truths = [name for name in ("qrels", "pairs", "labels") if getattr(self, name) is not None]
        if len(named_truths) > 1:
            raise InvalidError(
                f"Choose one of {' and '.join(f'--{name}' for name in named_truths)}: a task has one.", named_truths[1]
            )
        if self.qrels is not None and self.queries is None:
            raise InvalidError("--qrels needs the vectors of the queries: name their file by --queries.", "queries")
        if self.queries is not None and named_truths and self.qrels is None:
            raise InvalidError(f"--queries goes with --qrels or alone, not with --{named_truths[0]}.", "queries")
        if self.split is not None and not self.is_beir:
            raise InvalidError("--split goes with --qrels of a BEIR folder or zip file.", "split")
        for path in (*self.corpus, self.queries, self.qrels, self.pairs, self.annotations):
            if path is not None and not path.is_file() and not (path is self.qrels and path.is_dir()):
                problem = f"{path} is a folder" if path.is_dir() else f"There is no file {path}"
                raise InvalidError(f"{problem}: name a file.", "corpus")
            if path is not None and path.is_file():
                require_readable(path)

    @property
    def is_beir(self) -> bool:
        return self.qrels is not None and (self.qrels.is_dir() or self.qrels.suffix.lower() == ZIP_SUFFIX)


@dataclass(frozen=True)
class LoadedTask:
    """A task in memory."""

    corpus: NDArray[np.float32]
    truth: Truth
    notes: list[str] = field(default_factory=list)  # Sentences about what was chosen or left out


def read_files(files: TaskFiles) -> tuple[NamedVectors, NamedVectors | None]:
    """Return the vectors of the corpus, and those of the queries, or None if the files have none."""
    files.check()
    # Groups are read from the queries, else from the pairs, else from the corpus.
    corpus_groups = files.groups if files.queries is None and files.pairs is None else None
    corpus = read_vectors(
        files.corpus, "corpus", annotations=files.annotations, vectors=files.vectors, ids=files.ids,
        labels=files.labels, groups=corpus_groups,
    )  # fmt: skip
    if files.queries is None:
        return corpus, None
    return corpus, read_vectors([files.queries], "queries", vectors=files.vectors, ids=files.ids, groups=files.groups)


def task_of_vectors(
    files: TaskFiles, corpus: NamedVectors, queries: NamedVectors | None, similarity: Similarity, seed: int
) -> LoadedTask:
    """Return the task of vectors from ``read_files``, with the ground truth of the files, or else of compression."""
    if files.pairs is not None:
        return pairs_task(corpus, read_pairs(files.pairs, files.pairs.name, files.groups), files.pairs.name)
    if files.labels is not None:
        return labels_task(corpus)
    if queries is None:
        return compression_task(corpus, similarity, seed)
    require_same_dimensions(corpus, queries)
    if files.qrels is None:
        return queries_task(corpus, queries, similarity)
    if files.is_beir:
        with open_beir(files.qrels) as beir:
            split = choose_split(beir.qrels, files.split)
            table = beir.qrels[split]
            corpus, queries = _with_text_ids(corpus, beir.corpus), _with_text_ids(queries, beir.queries)
            loaded = qrels_task(corpus, queries, read_qrels(table.path, table.filename), table.filename)
        other_splits = [name for name in beir.qrels if name != split]
        note = f" Others: {', '.join(other_splits)}; choose one by --split." if other_splits else ""
        return replace(loaded, notes=[f"Judged by the split {split} of {files.qrels.name}.{note}", *loaded.notes])
    return qrels_task(corpus, queries, read_qrels(files.qrels, files.qrels.name), files.qrels.name)


def _with_text_ids(vectors: NamedVectors, texts: NamedFile) -> NamedVectors:
    """Return vectors with the ids of the BEIR texts that they encode, in order, unless they have ids."""
    if vectors.row_ids.column is not None:
        return vectors
    ids = read_beir_ids(texts)
    if len(ids) != len(vectors.x):
        raise InvalidError(
            f"{vectors.filename} has no ids and {plural(len(vectors.x), 'row')}, {texts.filename} {len(ids):,}. Give a "
            "vector for each line in order, or a column of ids by --ids.",
            "qrels",
        )
    row_ids = RowIds(vectors.filename, ids, ID)
    row_ids.require_unique("qrels", "choose the column of ids by --ids")
    return replace(vectors, row_ids=row_ids)


def require_same_dimensions(corpus: NamedVectors, queries: NamedVectors) -> None:
    if queries.x.shape[1] != corpus.x.shape[1]:
        raise InvalidError(
            f"{queries.filename} has {queries.x.shape[1]:,} dimensions, {corpus.filename} {corpus.x.shape[1]:,}: "
            "encode both with the same model.",
            "queries",
        )


def qrels_task(
    corpus: NamedVectors, queries: NamedVectors, judgments: Sequence[Judgment], name: str, advice: str = IDS_ADVICE
) -> LoadedTask:
    """Return the task of finding relevant documents; ``name`` is the file's, ``advice`` tells how to choose its ids."""
    query_rows, document_rows = corpus_and_query_rows(corpus.row_ids, queries.row_ids, judgments, name, advice)
    relevant: list[dict[int, int]] = [{} for _ in queries.ids]
    for query, row, judgment in zip(query_rows, document_rows, judgments, strict=True):
        if query >= 0 and row >= 0 and judgment.grade > 0:  # unknown ids have row -1
            if row in relevant[query]:
                raise InvalidError(
                    f"{name} judges a document of {quote(queries.ids[query])} twice: once is enough.", "qrels"
                )
            relevant[query][row] = judgment.grade
    has_relevant = np.array([bool(rows) for rows in relevant])
    if not has_relevant.any():
        raise InvalidError(f"{name} names no relevant document: a score above 0 says that one is.", "qrels")
    n_unknown = sum(min(pair) < 0 for pair in zip(query_rows, document_rows, strict=True))
    notes = _unknown_notes(n_unknown, name)
    notes += _left_out_notes(
        int((~has_relevant).sum()),
        "query has no relevant document and is left out",
        "queries have no relevant document and are left out",
    )
    groups = None if queries.groups is None else _group_codes(compress(queries.groups, has_relevant))
    truth = QueryTruth(queries.x[has_relevant], [rows for rows in relevant if rows], corpus.ids, groups)
    return LoadedTask(corpus.x, truth, notes)


def pairs_task(corpus: NamedVectors, pairs: Sequence[ScoredPair], name: str, advice: str = IDS_ADVICE) -> LoadedTask:
    """Return the task of ranking pairs like their scores; for ``name`` and ``advice`` see ``qrels_task``."""
    rows = np.array(pair_rows(corpus.row_ids, pairs, name, advice), np.int64)
    is_known = np.asarray((rows >= 0).all(axis=1))
    scores = np.array([pair.score for pair in pairs])[is_known]
    if (scores == scores[0]).all():
        raise InvalidError(
            f"All pairs of {name} have the score {scores[0]:g}: a rank correlation needs several.", "pairs"
        )
    groups = [pair.group for pair in compress(pairs, is_known.tolist())]
    codes = _group_codes(groups) if any(groups) else None
    truth = PairTruth(rows[is_known], scores, codes)
    return LoadedTask(corpus.x, truth, _unknown_notes(int((~is_known).sum()), name))


def labels_task(corpus: NamedVectors) -> LoadedTask:
    """Return the task of predicting the labels of rows; raise InvalidError for one class or one row per class."""
    labels = corpus.labels or []
    rows = np.array([row for row, label in enumerate(labels) if label], np.int64)
    classes, codes = _number_values(labels[row] for row in rows)
    if len(classes) < 2:
        class_summary = f"only {quote(classes[0])}" if classes else "none"
        raise InvalidError(
            f"Expected labels of at least two classes, got {class_summary}: choose another column.", "labels"
        )
    if len(classes) == len(rows):
        raise InvalidError(
            f"Expected labels that several rows share, got {len(rows):,} different ones: choose another column.",
            "labels",
        )
    groups = None if corpus.groups is None else _group_codes(corpus.groups[row] for row in rows)
    notes = _left_out_notes(
        len(labels) - len(rows), "row has no label and is left out", "rows have no label and are left out"
    )
    return LoadedTask(corpus.x, LabelTruth(rows, codes, corpus.ids, groups), notes)


def queries_task(corpus: NamedVectors, queries: NamedVectors, similarity: Similarity) -> LoadedTask:
    """Return a compression task: the relevant rows of a query are its exact nearest neighbors."""
    groups = None if queries.groups is None else _group_codes(queries.groups)
    return LoadedTask(corpus.x, exact_neighbors(corpus.x, queries.x, corpus.ids, similarity, groups))


def compression_task(corpus: NamedVectors, similarity: Similarity, seed: int) -> LoadedTask:
    """Return a compression task with held-out corpus rows as its queries."""
    n = len(corpus.x)
    if n < MIN_ROWS:
        raise InvalidError(f"Expected at least {MIN_ROWS} rows where none are queries, got {n}.", "corpus")
    n_queries = max(min(MAX_HELD_OUT, n // 5), DEPTH)
    query_mask = np.zeros(n, bool)
    query_mask[np.random.default_rng(seed).permutation(n)[:n_queries]] = True
    ids = [name for name, is_query in zip(corpus.ids, query_mask, strict=True) if not is_query]
    corpus_vectors, queries = corpus.x[~query_mask], corpus.x[query_mask]
    notes = [f"There is no ground truth: {plural(len(queries), 'row')} of the corpus are left out of it, as queries."]
    groups = None if corpus.groups is None else _group_codes(compress(corpus.groups, query_mask))
    return LoadedTask(corpus_vectors, exact_neighbors(corpus_vectors, queries, ids, similarity, groups), notes)


def _unknown_notes(count: int, name: str) -> list[str]:
    return _left_out_notes(
        count,
        f"row of {name} has an id that no vector has and is left out",
        f"rows of {name} have ids that no vector has and are left out",
    )


def _left_out_notes(count: int, singular: str, plural_words: str) -> list[str]:
    """Return a sentence about ``count`` rows in a list, which is empty for none."""
    return [f"{count:,} {singular if count == 1 else plural_words}."] if count else []


def _group_codes(names: Iterable[str]) -> NDArray[np.int64]:
    """Return the group number of each name; an empty name is a separate group."""
    return _number_values(name or f"\0{row}" for row, name in enumerate(names))[1]


def _number_values(values: Iterable[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the sorted distinct values and each value's index among them."""
    all_values = list(values)  # not an array, which would pad every value to the longest
    distinct = sorted(set(all_values))
    codes = {value: code for code, value in enumerate(distinct)}
    return distinct, np.array([codes[value] for value in all_values], np.int64)
