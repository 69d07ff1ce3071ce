"""Selections: new embeddings of the same files, without some rows or dimensions.

Forms and URLs write rows as ranges: ``0-99 120 130-180``.
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
from app.db.models import FULL_FINDINGS, Embedding, EmbeddingFile, EmbeddingOrigin, EmbeddingStatus
from app.db.point_map import MAX_MAPPED
from app.embeddings.service import get_embedding, get_figure_data, require_measured
from app.storage import Stored
from isoscope.core.errors import ConflictError, InvalidError, NotFoundError
from isoscope.core.formatting import plural
from isoscope.files.selection import MAX_BITS, MAX_EXCLUDED_ROWS, MAX_LISTED, Selection
from isotropy.catalog import FINDINGS

RANGE_PATTERN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
ROWS_FIELD = "rows"
USABLE_SELECTION = (
    Embedding.origin == EmbeddingOrigin.SELECTED,
    Embedding.trashed_at.is_(None),
    Embedding.status != EmbeddingStatus.FAILED,
)


class LeftOut(NamedTuple):
    """Rows and dimensions, by position in the file, that a selection leaves out but its source still has."""

    rows: Sequence[int] = ()
    dimensions: Sequence[int] = ()
    finding: str | None = None
    """Slug of the finding that names them, if one does."""
    selected_count: int | None = None
    """Number of remaining rows if a user selected these; None if a user chose what to leave out."""

    def default_name(self, source: str) -> str:
        if self.selected_count is not None:
            return f"{plural(self.selected_count, 'row')} of {source}"
        nouns = FINDINGS[self.finding].removed_nouns if self.finding in FINDINGS else None
        if nouns is not None:
            return f"{source} without {plural(len(self.rows) or len(self.dimensions), *nouns)}"
        counts = {"row": len(self.rows), "dimension": len(self.dimensions)}
        items = " and ".join(plural(count, noun) for noun, count in counts.items() if count)
        return f"{source} without {items}"


def create_selection(context: Context, embedding_id: str, left_out: LeftOut, name: str | None = None) -> Embedding:
    """Return a new embedding of the same files, queued to be measured, or an existing one that leaves out the same."""
    source = get_embedding(context, embedding_id)
    require_measured(source, "a selection")
    if not left_out.rows and not left_out.dimensions:
        raise InvalidError("Nothing to leave out. Give rows, dimensions or a finding.", "rows")
    source_selection = Selection.model_validate(source.selection)
    selection = _extend_selection(source, source_selection, left_out)
    selections = select(Embedding.id, Embedding.selection).where(Embedding.source_id == embedding_id, *USABLE_SELECTION)
    with context.sessions() as session:
        for selection_id, values in session.execute(selections.order_by(Embedding.created_at, Embedding.id)):
            if Selection.model_validate(values) == selection:
                return get_embedding(context, selection_id)
    stored = [Stored(file.file_sha256, file.size_bytes) for file in source.files]
    with context.ledger.recording(*stored) as session:
        embedding = Embedding(
            name=clean_name(name, left_out.default_name(source.name)),
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
                "rows": len(selection.without_rows) - len(source_selection.without_rows),
                "dimensions": len(selection.without_dimensions) - len(source_selection.without_dimensions),
            },
            files=[
                EmbeddingFile(
                    position=file.position, role=file.role, filename=file.filename, file_sha256=file.file_sha256
                )
                for file in source.files
            ],
        )
        session.add(embedding)
    context.queue.enqueue(Job(job_kinds.INSPECT, embedding.id))
    return get_embedding(context, embedding.id)


def leave_out_unselected(context: Context, embedding_id: str, rows: Sequence[int]) -> LeftOut:
    """Return all rows of an embedding but ``rows`` (positions in its file). Raise InvalidError if there are none."""
    source = get_embedding(context, embedding_id)
    require_measured(source, "a selection")
    missing_rows, selected_rows = set(Selection.model_validate(source.selection).without_rows), set(rows)
    n = (source.n or 0) + len(missing_rows)
    if unknown := sorted(row for row in selected_rows if row >= n or row in missing_rows):
        raise InvalidError(
            f"{source.name} has no row {unknown[0]:,}. Use row positions in its file, from 0, that it includes.", "rows"
        )
    left_out = [row for row in range(n) if row not in selected_rows and row not in missing_rows]
    if not left_out:
        raise InvalidError(f"These are all rows of {source.name}. Select fewer.", "rows")
    max_left_out = _max_left_out(n)
    if len(left_out) + len(missing_rows) > max_left_out:
        raise InvalidError(
            f"{len(selected_rows):,} selected rows leave out {len(left_out):,}. A selection of {n:,} rows leaves out "
            f"at most {max_left_out:,}: upload the selected rows as a file.",
            "rows",
        )
    return LeftOut(left_out, selected_count=len(selected_rows))


def leave_out_finding(context: Context, embedding_id: str, finding: str) -> LeftOut:
    """Return the rows and dimensions that a finding names. Raise if these are none, too many or not all stored."""
    embedding = get_embedding(context, embedding_id)
    findings = {entry["slug"]: entry for entry in embedding.findings}
    if (entry := findings.get(finding)) is None:
        slugs = ", ".join(findings) or "none"
        raise NotFoundError(f"{embedding.name} has no finding `{finding[:40]}`. Findings are: {slugs}.", "finding")
    if finding not in FINDINGS or FINDINGS[finding].removed_nouns is None:
        raise InvalidError(f"`{finding}` names nothing to leave out. Read its advice instead.", "finding")
    full_finding = get_figure_data(context, embedding_id, FULL_FINDINGS).get(FULL_FINDINGS, {}).get(finding, entry)
    left_out = LeftOut(full_finding["rows"], full_finding.get("dimensions", []), finding)
    counts = entry["row_count"], entry.get("dimension_count", 0)
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


def find_selections(context: Context, embedding: Embedding) -> dict[str, str]:
    """Return the id of the newest selection that leaves out each finding, by the finding's slug."""
    slugs = {finding["slug"] for finding in embedding.findings}
    if not any(entry.removed_nouns for slug, entry in FINDINGS.items() if slug in slugs):
        return {}
    statement = select(Embedding.id, Embedding.provenance).where(Embedding.source_id == embedding.id, *USABLE_SELECTION)
    with context.sessions() as session:
        rows = session.execute(statement.order_by(Embedding.created_at, Embedding.id)).all()
    return {
        provenance["finding"]: embedding_id for embedding_id, provenance in rows if provenance and provenance["finding"]
    }


def _extend_selection(source: Embedding, source_selection: Selection, left_out: LeftOut) -> Selection:
    """Return a selection that also leaves out ``left_out``. Raise InvalidError if that is not possible."""
    n, d = (
        (source.n or 0) + len(source_selection.without_rows),
        (source.d or 0) + len(source_selection.without_dimensions),
    )
    for field, numbers, already_left_out, maximum in (
        ("rows", left_out.rows, source_selection.without_rows, _max_left_out(n)),
        ("dimensions", left_out.dimensions, source_selection.without_dimensions, MAX_LISTED),
    ):
        if repeated := sorted(set(numbers) & set(already_left_out)):
            raise InvalidError(
                f"{source.name} leaves out {field[:-1]} {repeated[0]:,} already. Give {field} that it still has.", field
            )
        if len(set(numbers)) + len(already_left_out) > maximum:
            raise InvalidError(f"A selection leaves out at most {maximum:,} {field}. Upload the rest as a file.", field)
    selection = source_selection.model_copy(
        update={
            "without_rows": sorted({*source_selection.without_rows, *left_out.rows}),
            "without_dimensions": sorted({*source_selection.without_dimensions, *left_out.dimensions}),
        }
    )
    try:
        selection.remaining(n, d)
    except InvalidError as error:
        raise InvalidError(str(error), (error.field or "").removeprefix("without_")) from error
    return selection


def _max_left_out(n: int) -> int:
    """Return how many of a file's n rows a selection can leave out."""
    return MAX_EXCLUDED_ROWS if n <= MAX_BITS else MAX_LISTED


def parse_rows(text: str) -> list[int]:
    """Return the distinct rows of ranges such as ``0-99 120``, ascending. Raise InvalidError if they are not valid."""
    ranges: list[tuple[int, int]] = []
    for part in text.split():
        match = RANGE_PATTERN.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)  # no row
        if first > last:
            raise InvalidError(
                f"`{part[:40]}` names no rows. Write a number or a range, such as `120` or `0-99`.", ROWS_FIELD
            )
        ranges.append((first, last))
    total = sum(last - first + 1 for first, last in ranges)
    if not total:
        raise InvalidError("No rows are selected. Select some on the map first.", ROWS_FIELD)
    if total > MAX_MAPPED:
        raise InvalidError(f"{total:,} rows are too many. Select at most {MAX_MAPPED:,}.", ROWS_FIELD)
    rows: list[int] = np.unique(np.concatenate([np.arange(first, last + 1) for first, last in ranges])).tolist()
    return rows


def format_rows(rows: Sequence[int]) -> str:
    """Write rows as ranges, as ``parse_rows`` reads them."""
    ranges: list[list[int]] = []
    for row in sorted(set(rows)):
        if ranges and row == ranges[-1][1] + 1:
            ranges[-1][1] = row
        else:
            ranges.append([row, row])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
