"""Uploaded ground truth, checked against the rows that it is about and written in one form."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from isoscope.files import ground_truth
from isoscope.files.matrix import open_matrix
from isoscope.files.row_ids import RowIds, read_ids
from isoscope.files.selection import Selection
from isoscope.files.strict import Frozen
from isoscope.files.upload import Upload

SHOWN_LINES = 5
SHOWN_IDS = 5
BY_COLUMN = "choose another column of ids"

Noun = Literal["query", "document", "row"]


class UnknownIds(Frozen):
    """Ids of ground truth that no row has."""

    noun: Noun
    count: int
    """Of different ids."""
    examples: list[str]


class TruthPreview(Frozen):
    """What a file of ground truth holds, and how much of it the rows know."""

    lines: int
    used: int
    """Lines whose ids are all known."""
    head: list[list[str]]
    """The first lines: two ids and a score each."""
    unknown: list[UnknownIds]
    ids: str
    """Where the ids of the rows come from, in a sentence."""
    query_ids: str | None = None
    """Where those of the queries come from."""


@dataclass(frozen=True)
class NamedRows:
    """The files of an embedding, what was chosen of them, and the column of ids if one was named."""

    upload: Upload
    selection: Selection
    name: str
    ids: str | None = None

    def read(self, what: str) -> RowIds:
        """Return the ids of the rows, each of which names one."""
        matrix = open_matrix(self.upload, self.selection)
        found = read_ids(matrix, self.name, self.ids, self.selection.names, what)
        found.require_unique(what, BY_COLUMN)
        return found


def check_qrels(path: Path, filename: str, corpus: NamedRows, queries: NamedRows, target: Path) -> TruthPreview:
    """Check a table of relevant documents against corpus and queries, and write it to ``target`` as JSON lines.

    Raises:
        InvalidError: it is no such table, or is about other rows.

    """
    judgments = ground_truth.read_qrels(path, filename)
    documents, asked = corpus.read("ids"), queries.read("query_ids")
    places = ground_truth.corpus_and_query_rows(documents, asked, judgments, filename, BY_COLUMN)
    ground_truth.write_qrels(judgments, target)
    query_rows, document_rows = places
    return TruthPreview(
        lines=len(judgments),
        used=sum(min(pair) >= 0 for pair in zip(*places, strict=True)),
        head=_head(judgments),
        unknown=[
            *_unknown("query", [one.query for one, row in zip(judgments, query_rows, strict=True) if row < 0]),
            *_unknown("document", [one.document for one, row in zip(judgments, document_rows, strict=True) if row < 0]),
        ],
        ids=f"{documents.called}.",
        query_ids=f"{asked.called}.",
    )


def check_pairs(path: Path, filename: str, groups: str | None, corpus: NamedRows, target: Path) -> TruthPreview:
    """Check a table of pairs with scores against the rows, and write it to ``target`` as JSON lines.

    Raises:
        InvalidError: it is no such table, or is about other rows.

    """
    pairs = ground_truth.read_pairs(path, filename, groups)
    documents = corpus.read("ids")
    rows = ground_truth.pair_rows(documents, pairs, filename, BY_COLUMN)
    ground_truth.write_pairs(pairs, target)
    named = [name for pair in pairs for name in (pair.one, pair.other)]
    places = [row for pair in rows for row in pair]
    return TruthPreview(
        lines=len(pairs),
        used=sum(min(pair) >= 0 for pair in rows),
        head=_head(pairs),
        unknown=_unknown("row", [name for name, row in zip(named, places, strict=True) if row < 0]),
        ids=f"{documents.called}.",
    )


def _head(lines: Sequence[ground_truth.Judgment | ground_truth.ScoredPair]) -> list[list[str]]:
    return [[line[0][:80], line[1][:80], f"{line[2]:g}"] for line in lines[:SHOWN_LINES]]


def _unknown(noun: Noun, ids: Iterable[str]) -> list[UnknownIds]:
    different = list(dict.fromkeys(ids))
    examples = [name[:80] for name in different[:SHOWN_IDS]]
    return [UnknownIds(noun=noun, count=len(different), examples=examples)] if different else []
