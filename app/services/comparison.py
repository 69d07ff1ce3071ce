"""Measured embeddings beside a first one, the baseline: every measure of each, and how far it is from there."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import selectinload

from app.context import Context
from app.db.models import Embedding, Measurement
from app.services.differences import Difference, difference
from app.services.embeddings import require_measured
from app.services.same_rows import NOT_PAIRED, Pairing, pairing
from isoscope.core.errors import InvalidError, NotFoundError
from isotropy.catalog import MEASURES, Measure

LEAST, MOST = 2, 8
ROWS_A_DIMENSION = 10
"""With fewer, the bias of IsoScore is seen in its first digits."""


class Compared(NamedTuple):
    """A measure, what was found in each embedding, and its difference to the first; None where there is none."""

    measure: Measure
    found: list[Measurement | None]
    differences: list[Difference | None]

    @property
    def differs(self) -> bool:
        """Whether some interval excludes zero."""
        return any(one is not None and one.excludes_zero for one in self.differences)

    @property
    def judged(self) -> bool:
        """Whether some difference has an interval, or is known to be none."""
        return any(one is not None and (one.se is not None or one.value == 0) for one in self.differences)


def compare(embeddings: Sequence[Embedding]) -> list[Compared]:
    """Every measure that one of the embeddings has, in the catalogue's order; differences are to the first of them."""
    by_slug = [{one.measure: one for one in embedding.measurements} for embedding in embeddings]
    paired = [pairing(one, embeddings[0], embeddings) is Pairing.PAIRED for one in embeddings]
    rows = []
    for slug, measure in MEASURES.items():
        found = [measured.get(slug) for measured in by_slug]
        if any(found):
            differences = [
                difference(one, found[0], same_rows=same) for one, same in zip(found[1:], paired[1:], strict=True)
            ]
            rows.append(Compared(measure, found, [None, *differences]))
    return rows


def cautions(embeddings: Sequence[Embedding]) -> list[str]:
    """What to mind of these embeddings in particular, a sentence each."""
    names = dict(zip((one.id for one in embeddings), distinct_names(embeddings), strict=True))
    rows = {one.id: one.n_measured for one in embeddings}
    found = []
    few = [one for one in embeddings if rows[one.id] < ROWS_A_DIMENSION * (one.d or 0)]
    if few and len(set(rows.values())) > 1:
        told = ", ".join(f"{names[one.id]} ({rows[one.id]:,} rows for {one.d:,} dimensions)" for one in few)
        found.append(
            f"Numbers of rows differ, and with fewer than {ROWS_A_DIMENSION} rows a dimension IsoScore is biased low: "
            f"{told}. Read the bias-corrected IsoScore instead, or compare equal numbers of rows."
        )
    if len(dimensions := {one.d or 0 for one in embeddings}) > 1:
        told = ", ".join(f"{d:,}" for d in sorted(dimensions))
        found.append(
            f"Numbers of dimensions differ ({told}): measures whose range grows with d, such as ranks, "
            "are not of one scale."
        )
    found += [
        f"{names[one.id]} and {names[embeddings[0].id]} hold the same rows, {why}. Their intervals are those of "
        "independent rows, usually wider than they need be."
        for one in embeddings[1:]
        if (why := NOT_PAIRED.get(pairing(one, embeddings[0], embeddings)))
    ]
    found += [
        f"{names[one.id]} was fitted on {one.provenance['fit_rows']:,} of its {rows[one.id]:,} rows, which flatters "
        "its numbers: the lab judges the method on rows it has not seen."
        for one in embeddings
        if one.provenance and "fit_rows" in one.provenance
    ]
    return found


def in_order_of_making(embeddings: Iterable[Embedding]) -> list[Embedding]:
    """First what others of them were made of, then the oldest first: the baseline that is likeliest meant."""
    chosen = list(embeddings)
    sources = {one.source_id for one in chosen}
    return sorted(chosen, key=lambda one: (one.id not in sources, one.created_at, one.id))


def get_compared(context: Context, ids: Sequence[str]) -> list[Embedding]:
    """The embeddings to be compared, in this order, with their measurements."""
    if not LEAST <= len(ids) <= MOST:
        raise InvalidError(f"Expected {LEAST} to {MOST} embeddings to compare, got {len(ids)}.", "id")
    return get_chosen(context, ids)


def get_chosen(context: Context, ids: Sequence[str]) -> list[Embedding]:
    """Measured embeddings by their ids, in this order, with their measurements; at most as many as are compared."""
    if len(ids) > MOST:
        raise InvalidError(f"Expected at most {MOST} embeddings to compare, got {len(ids)}. Leave some out.", "id")
    if len(set(ids)) < len(ids):
        raise InvalidError("The same embedding stands twice in the comparison. Leave it out once.", "id")
    wanted = select(Embedding).where(Embedding.id.in_(ids)).options(selectinload(Embedding.measurements))
    with context.sessions() as session:
        by_id = {one.id: one for one in session.scalars(wanted)}
    for embedding_id in ids:
        if (one := by_id.get(embedding_id)) is None:
            raise NotFoundError(f"There is no embedding {embedding_id!r}; it may have been deleted.", "id")
        require_measured(one, "a comparison")
    return [by_id[embedding_id] for embedding_id in ids]


def distinct_names(embeddings: Iterable[Embedding]) -> list[str]:
    """The names, with a number behind one that has come before."""
    names: list[str] = []
    for one in embeddings:
        same = [one.name, *(f"{one.name} ({number})" for number in range(2, len(names) + 2))]
        names.append(next(name for name in same if name not in names))
    return names
