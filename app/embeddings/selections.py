"""Selections: the same files measured without some rows or dimensions, as an embedding of its own.

Many rows are written in few characters, as a map sends what was selected on it: ``0-99 120 130-180``, or a bit a
point.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sqlalchemy import select

from app.context import Context
from app.core.names import clean_name
from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import BLAMED, Embedding, EmbeddingFile, EmbeddingOrigin, EmbeddingStatus
from app.db.point_map import MAX_MAPPED
from app.embeddings.service import get_embedding, get_figure_data, require_measured
from app.storage import Stored
from isoscope.core.errors import ConflictError, InvalidError, NotFoundError
from isoscope.files.selection import MAX_BITS, MAX_LISTED, MAX_WITHOUT, Selection
from isotropy.catalog import FINDINGS


class LeftOut(NamedTuple):
    """Rows and dimensions that a selection leaves out beside those of its source, by their places in the file."""

    rows: Sequence[int] = ()
    dimensions: Sequence[int] = ()
    finding: str | None = None
    """Slug of the finding that names them."""
    kept: int | None = None
    """How many rows stay, where the user chose these rather than those that go."""

    def name(self, source: str) -> str:
        """What the selection of a source is called unless somebody names it."""
        if self.kept is not None:
            return f"{_counted(self.kept, 'row', 'rows')} of {source}"
        return f"{source} without {self.words}"

    @property
    def words(self) -> str:
        """What is left out: 12 outlier rows."""
        told = FINDINGS[self.finding].removed if self.finding in FINDINGS else None
        if told is not None:
            return _counted(len(self.rows) or len(self.dimensions), *told)
        counts = [(len(self.rows), "row", "rows"), (len(self.dimensions), "dimension", "dimensions")]
        return " and ".join(_counted(*one) for one in counts if one[0])


def create_selection(context: Context, embedding_id: str, left_out: LeftOut, name: str | None = None) -> Embedding:
    """Measure an embedding's files without some rows or dimensions; nothing of their bytes is copied.

    A selection that is there already is returned as it is.
    """
    source = get_embedding(context, embedding_id)
    require_measured(source, "a selection")
    if not left_out.rows and not left_out.dimensions:
        raise InvalidError("Nothing to leave out. Give rows, dimensions or a finding.", "rows")
    selection = _without(source, left_out)
    if (there := _find(context, embedding_id, selection)) is not None:
        return get_embedding(context, there)
    stored = [Stored(one.file_sha256, one.size_bytes) for one in source.files]
    with context.ledger.recording(*stored) as session:
        made = Embedding(
            name=clean_name(name, left_out.name(source.name)),
            filename=source.filename,
            format=source.format,
            origin=EmbeddingOrigin.SELECTED,
            status=EmbeddingStatus.INSPECTING,
            commit_when_inspected=True,
            source_id=source.id,
            selection=selection.model_dump(),
            provenance={
                "source": source.name,
                "finding": left_out.finding,
                "rows": len(selection.without_rows) - len(_chosen(source).without_rows),
                "dimensions": len(selection.without_dimensions) - len(_chosen(source).without_dimensions),
            },
            files=[
                EmbeddingFile(position=one.position, role=one.role, filename=one.filename, file_sha256=one.file_sha256)
                for one in source.files
            ],
        )
        session.add(made)
    context.queue.enqueue(Job(job_kinds.INSPECT, made.id))
    return get_embedding(context, made.id)


def keep_only(context: Context, embedding_id: str, rows: Sequence[int]) -> LeftOut:
    """Return all rows of an embedding but these, given by their places in the file."""
    source = get_embedding(context, embedding_id)
    require_measured(source, "a selection")
    gone, kept = set(_chosen(source).without_rows), set(rows)
    n = (source.n or 0) + len(gone)
    if unknown := sorted(one for one in kept if one >= n or one in gone):
        raise InvalidError(
            f"{source.name} has no row {unknown[0]:,}. Give places in its file, from 0, that it does not leave out.",
            "rows",
        )
    left_out = [row for row in range(n) if row not in kept and row not in gone]
    if not left_out:
        raise InvalidError(f"These are all rows of {source.name}. Select fewer.", "rows")
    most = _most_rows(n)
    if len(left_out) + len(gone) > most:
        raise InvalidError(
            f"{len(kept):,} selected rows leave out {len(left_out):,}. A selection of {n:,} rows leaves out at most "
            f"{most:,}: upload the selected rows as a file.",
            "rows",
        )
    return LeftOut(left_out, kept=len(kept))


def left_out_by(context: Context, embedding_id: str, finding: str) -> LeftOut:
    """Return all rows or dimensions that a finding of an embedding names."""
    embedding = get_embedding(context, embedding_id)
    found = {one["slug"]: one for one in embedding.findings}
    if (one := found.get(finding)) is None:
        known = ", ".join(found) or "none"
        raise NotFoundError(f"{embedding.name} has no finding `{finding[:40]}`. Findings are: {known}.", "finding")
    if finding not in FINDINGS or FINDINGS[finding].removed is None:
        raise InvalidError(f"`{finding}` names nothing to leave out. Read its advice instead.", "finding")
    every = get_figure_data(context, embedding_id, BLAMED).get(BLAMED, {}).get(finding, one)
    left_out = LeftOut(every["rows"], every.get("dimensions", []), finding)
    counts = one["row_count"], one.get("dimension_count", 0)
    if max(counts) > MAX_LISTED:
        raise InvalidError(
            f"`{finding}` names {max(counts):,} rows. A finding leaves out at most {MAX_LISTED:,}: upload the rest "
            "as a file.",
            "finding",
        )
    if counts != (len(left_out.rows), len(left_out.dimensions)):
        raise ConflictError(
            f"An earlier version measured {embedding.name} and kept the first rows of this finding only. Choose again "
            "to measure it with this version."
        )
    return left_out


def selections_of(context: Context, embedding: Embedding) -> dict[str, str]:
    """Return the selections made of an embedding by its findings: the id of the newest for each slug."""
    slugs = {one["slug"] for one in embedding.findings}
    if not any(one.removed for slug, one in FINDINGS.items() if slug in slugs):
        return {}
    made = select(Embedding.id, Embedding.provenance).where(
        Embedding.source_id == embedding.id,
        Embedding.status != EmbeddingStatus.FAILED,
        Embedding.origin == EmbeddingOrigin.SELECTED,
        Embedding.trashed_at.is_(None),
    )
    with context.sessions() as session:
        found = session.execute(made.order_by(Embedding.created_at, Embedding.id)).all()
    return {provenance["finding"]: one for one, provenance in found if provenance and provenance["finding"]}


def _without(source: Embedding, left_out: LeftOut) -> Selection:
    """The source's selection without more rows and dimensions, checked against what the files hold."""
    chosen = _chosen(source)
    n, d = (source.n or 0) + len(chosen.without_rows), (source.d or 0) + len(chosen.without_dimensions)
    for field, numbers, gone, most in (
        ("rows", left_out.rows, chosen.without_rows, _most_rows(n)),
        ("dimensions", left_out.dimensions, chosen.without_dimensions, MAX_LISTED),
    ):
        if again := sorted(set(numbers) & set(gone)):
            raise InvalidError(
                f"{source.name} leaves out {field[:-1]} {again[0]:,} already. Give {field} that it still has.", field
            )
        if len(set(numbers)) + len(gone) > most:
            raise InvalidError(f"A selection leaves out at most {most:,} {field}. Upload the rest as a file.", field)
    selection = chosen.model_copy(
        update={
            "without_rows": sorted({*chosen.without_rows, *left_out.rows}),
            "without_dimensions": sorted({*chosen.without_dimensions, *left_out.dimensions}),
        }
    )
    try:
        selection.remaining(n, d)
    except InvalidError as error:
        raise InvalidError(str(error), (error.field or "").removeprefix("without_")) from error
    return selection


def _most_rows(n: int) -> int:
    """Return how many of n rows of a file a selection leaves out at most."""
    return MAX_WITHOUT if n <= MAX_BITS else MAX_LISTED


def _find(context: Context, embedding_id: str, selection: Selection) -> str | None:
    """The selection of an embedding that is the same, unless it failed or is in the trash."""
    made = select(Embedding.id, Embedding.selection).where(
        Embedding.source_id == embedding_id,
        Embedding.origin == EmbeddingOrigin.SELECTED,
        Embedding.trashed_at.is_(None),
        Embedding.status != EmbeddingStatus.FAILED,
    )
    with context.sessions() as session:
        found = session.execute(made.order_by(Embedding.created_at, Embedding.id)).all()
    return next((one for one, chosen in found if Selection.model_validate(chosen) == selection), None)


def _chosen(embedding: Embedding) -> Selection:
    return Selection.model_validate(embedding.selection)


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


RUN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
FIELD = "rows"
NONE = "No rows are selected. Select some on the map first."


def read_rows(text: str) -> list[int]:
    """Return the rows that runs name, ascending, each once.

    Raises:
        InvalidError: it is none, names no row, or more than a map has.

    """
    runs = [_run(part) for part in text.split()]
    total = sum(last - first + 1 for first, last in runs)
    if not total:
        raise InvalidError(NONE, FIELD)
    if total > MAX_MAPPED:
        raise InvalidError(f"{total:,} rows are too many. Select at most {MAX_MAPPED:,}.", FIELD)
    found: list[int] = np.unique(np.concatenate([np.arange(first, last + 1) for first, last in runs])).tolist()
    return found


def write_rows(rows: Sequence[int]) -> str:
    """Return the runs that name these rows."""
    runs: list[list[int]] = []
    for row in sorted(set(rows)):
        if runs and row == runs[-1][1] + 1:
            runs[-1][1] = row
        else:
            runs.append([row, row])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _run(part: str) -> tuple[int, int]:
    match = RUN.fullmatch(part)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if first > last:
        raise InvalidError(f"`{part[:40]}` names no rows. Write a number or a run, such as `120` or `0-99`.", FIELD)
    return first, last
