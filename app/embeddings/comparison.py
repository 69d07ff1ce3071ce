"""Measured embeddings beside a baseline: every measure of each, how far it is from there, and with what error."""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, StrEnum, auto
from math import hypot
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import selectinload

from app.context import Context, missing
from app.core.evidence import block_degrees, quantile
from app.db.models import Embedding, Measurement
from app.embeddings.readings import similarity_of
from app.embeddings.service import require_measured
from app.figures.figure import Cell
from isoscope.core.errors import InvalidError
from isoscope.files.selection import unpacked
from isotropy.catalog import MEASURES, SIMILARITIES, Measure, Similarity


class Pairing(Enum):
    """How the rows of two embeddings belong together."""

    PAIRED = auto()
    OTHER_ORDER = auto()
    OTHER_BLOCKS = auto()
    UNKNOWN_BLOCKS = auto()
    INDEPENDENT = auto()


NOT_PAIRED = {
    Pairing.OTHER_ORDER: "in another order. Sort both by name to have them paired",
    Pairing.OTHER_BLOCKS: "but other rows of them are duplicates, in groups or left out",
    Pairing.UNKNOWN_BLOCKS: "but an earlier version measured one of them. Measure it again to have them paired",
}
"""Why the same rows cannot be paired."""


def pairing(one: Embedding, other: Embedding, among: Sequence[Embedding]) -> Pairing:
    """Return how the rows of two embeddings belong together.

    They are the same where one was made of the other or both of a third, where both are layers of one encoding or read
    from the same files, and where they have the same names in the same order.

    Args:
        one: an embedding.
        other: another.
        among: those through which one may have been made of the other.

    """
    by_id = {each.id: each for each in among}
    known = [each.independent or {} for each in (one, other)]
    if one.n != other.n:
        return Pairing.INDEPENDENT
    if not (_agree(known, "names") or set(_origins(one, by_id)) & set(_origins(other, by_id))):
        return Pairing.OTHER_ORDER if _agree(known, "names_in_any_order") else Pairing.INDEPENDENT
    if not all(known):
        return Pairing.UNKNOWN_BLOCKS
    alike = known[0]["blocks"] == known[1]["blocks"] and one.n_left_out == other.n_left_out
    return Pairing.PAIRED if alike else Pairing.OTHER_BLOCKS


def _agree(known: list[dict[str, Any]], name: str) -> bool:
    first, second = (told.get(name) for told in known)
    return first is not None and first == second


def _origins(one: Embedding, by_id: dict[str, Embedding]) -> Iterator[object]:
    """Yield what is equal for embeddings whose rows have one origin."""
    origin = one
    # A selection without some rows is where they begin: its source has others too.
    while not rows_left_out(origin) and origin.source_id is not None and origin.source_id in by_id:
        origin = by_id[origin.source_id]
    yield origin.id if rows_left_out(origin) else origin.encoding_id or origin.source_id or origin.id
    if one.files:
        transposed = bool((one.selection or {}).get("transpose"))
        yield transposed, tuple(rows_left_out(one)), *(file.file_sha256 for file in one.files)


def rows_left_out(one: Embedding) -> list[int]:
    """Return the places in the file of the rows that the selection of an embedding leaves out."""
    rows: list[int] = unpacked((one.selection or {}).get("without_rows", []))
    return rows


ROUNDING = 1e-7
"""Part of the values below which a difference is taken as one of rounding: that of float32."""
ROUNDING_OF_RANGE = 1e-9
"""Part of the measure's range below which it is."""
MEASURE_AGAIN = "Measured by an earlier version. Measure it again to get an interval."


class Difference(NamedTuple):
    """A value less that of the baseline. Error and ends are None where there is no interval."""

    value: float
    se: float | None = None
    low: float | None = None
    high: float | None = None
    paired: bool = False
    """Whether the difference is paired by row."""
    n: int | None = None
    """Rows of either from which the difference was taken, where those are fewer than the measurements' own."""
    reason: str = ""
    """Why there is no interval."""

    @property
    def excludes_zero(self) -> bool | None:
        """Whether the 95% interval does; None where there is no interval."""
        return None if self.low is None or self.high is None else self.low > 0 or self.high < 0


class _Known(NamedTuple):
    """A value with what each block of rows adds to its error."""

    value: float
    parts: list[float]


def difference(one: Measurement | None, baseline: Measurement | None, *, same_rows: bool = False) -> Difference | None:
    """Return how far a value lies from the baseline's; None where one of the two has no value.

    Args:
        one: a measurement.
        baseline: the same measure of another embedding.
        same_rows: whether both are of the same rows in the same order, dealt to the same blocks.

    """
    if one is None or baseline is None or one.value is None or baseline.value is None:
        return None
    measure = MEASURES[one.measure]
    value = one.value - baseline.value
    if is_rounding(measure, one, baseline):
        return Difference(0.0, reason="No difference: the values are equal up to rounding.")
    if reason := _why_incomparable(measure, one, baseline):
        return Difference(value, reason=reason)
    if measure.compared == "at any n" or one.n == baseline.n:
        found = _between(_whole(one), _whole(baseline), None, same_rows)
        return found or Difference(value, reason=_why_none(one, baseline))
    sizes = [int(size) for size in _at(one).keys() & _at(baseline).keys()]
    if not sizes:
        return Difference(value, reason=f"Depends on the number of rows, here {one.n:,} and {baseline.n:,}.")
    n = max(sizes)
    first, second = (_Known(**_at(found)[str(n)]) for found in (one, baseline))
    return _between(first, second, n, same_rows)


def is_rounding(measure: Measure, one: Measurement, baseline: Measurement) -> bool:
    """Return whether two values differ by no more than the rounding of what they are made of."""
    a, b = one.value or 0.0, baseline.value or 0.0
    low, high = measure.bounds(max(one.n, 2), 2) if measure.bounds is not None else (0.0, 0.0)
    return abs(a - b) <= max(ROUNDING * max(abs(a), abs(b)), ROUNDING_OF_RANGE * (high - low))


def _between(one: _Known | None, baseline: _Known | None, n: int | None, same_rows: bool) -> Difference | None:
    if one is None or baseline is None:
        return None
    value = one.value - baseline.value
    paired = same_rows and len(one.parts) == len(baseline.parts)
    if paired:
        se = hypot(*(a - b for a, b in zip(one.parts, baseline.parts, strict=True)))
    else:
        se = hypot(*one.parts, *baseline.parts)
    # Of independent blocks the degrees of freedom are at least those of either: the interval is rather too wide.
    half = quantile(0.05, block_degrees(min(len(one.parts), len(baseline.parts)))) * se
    return Difference(value, se, value - half, value + half, paired, n)


def _whole(found: Measurement) -> _Known | None:
    return None if found.value is None or len(found.parts) < 2 else _Known(found.value, found.parts)


def _at(found: Measurement) -> dict[str, dict[str, Any]]:
    at: dict[str, dict[str, Any]] = (found.resampled or {}).get("at", {})
    return at


def _why_incomparable(measure: Measure, one: Measurement, baseline: Measurement) -> str:
    own, other = similarity_of(one), similarity_of(baseline)
    if own is not other:
        told = f"Measured by {SIMILARITIES[own]}, the baseline by {SIMILARITIES[other]}."
        return f"{told} Measure both by the same similarity."
    if measure.compared != "never":
        return ""
    if measure.corrected:
        return f"Biased by the number of rows. Compare {MEASURES[measure.corrected].name} instead."
    return "This measure has no error estimate."


def _why_none(one: Measurement, baseline: Measurement) -> str:
    if any(found.se is not None and found.resampled is None for found in (one, baseline)):
        return MEASURE_AGAIN
    return "One of the two has no standard error: it needs more independent rows."


LEAST, MOST = 2, 8
"""Embeddings that are compared side by side."""
MOST_STEPS = 200
"""Embeddings of a series, as many as fit into an address."""


FOUND = ("value", "se", "n", "reason")
"""Columns of a table that tell what was found of a measure."""


def found_cells(found: Measurement | None) -> list[Cell]:
    """Return them; empty where the measure was not found."""
    return [found.value, found.se, found.n, found.reason] if found else [None] * len(FOUND)


class Against(StrEnum):
    """What each embedding of several is compared with."""

    FIRST = "first"
    PREVIOUS = "previous"


def bases_of(embeddings: Sequence[Embedding], against: Against) -> list[Embedding]:
    """Return for each embedding but the first the one that it is compared with."""
    others = len(embeddings) - 1
    return [embeddings[0]] * others if against is Against.FIRST else list(embeddings[:-1])


ROWS_A_DIMENSION = 10
"""With fewer, the bias of IsoScore is seen in its first digits."""


class Compared(NamedTuple):
    """A measure, what was found in each embedding, and its difference to another; None where there is none."""

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


def compare(embeddings: Sequence[Embedding], against: Against = Against.FIRST) -> list[Compared]:
    """Every measure that one of the embeddings has, in the catalog's order; the first has no difference."""
    by_slug = [{one.measure: one for one in embedding.measurements} for embedding in embeddings]
    bases = bases_of(embeddings, against)
    base_of = [by_slug[embeddings.index(base)] for base in bases]
    paired = [pairing(one, base, embeddings) is Pairing.PAIRED for one, base in zip(embeddings[1:], bases, strict=True)]
    rows = []
    for slug, measure in MEASURES.items():
        found = [measured.get(slug) for measured in by_slug]
        if any(found):
            differences = [
                difference(one, base.get(slug), same_rows=same)
                for one, base, same in zip(found[1:], base_of, paired, strict=True)
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
            "cannot be compared."
        )
    chosen = {one.id: (one.selection or {}).get("similarity") or Similarity.EUCLIDEAN for one in embeddings}
    if len(set(chosen.values())) > 1:
        told = ", ".join(f"{names[one]} ({SIMILARITIES[by]})" for one, by in chosen.items())
        found.append(
            f"Similarities differ: {told}. Hubness and intrinsic dimension cannot be compared: measure all by the "
            "same similarity."
        )
    unpaired: dict[str, list[str]] = {}
    for one in embeddings[1:]:
        if why := NOT_PAIRED.get(pairing(one, embeddings[0], embeddings)):
            unpaired.setdefault(why, []).append(names[one.id])
    found += [
        f"{', '.join(others)} and {names[embeddings[0].id]} hold the same rows, {why}. Their intervals are those of "
        "independent rows, usually wider than necessary."
        for why, others in unpaired.items()
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


def get_compared(context: Context, ids: Sequence[str], most: int = MOST_STEPS) -> list[Embedding]:
    """The embeddings to be compared, in this order, with their measurements."""
    if not LEAST <= len(ids) <= most:
        wanted = f"{LEAST} to {most}" if most > LEAST else f"{LEAST}"
        raise InvalidError(f"Expected {wanted} embeddings to compare, got {len(ids)}.", "id")
    return get_chosen(context, ids)


def get_chosen(context: Context, ids: Sequence[str]) -> list[Embedding]:
    """Measured embeddings by their ids, in this order, with their measurements; at most as many as are compared."""
    if len(ids) > MOST_STEPS:
        raise InvalidError(f"Expected at most {MOST_STEPS} embeddings, got {len(ids)}. Leave some out.", "id")
    if len(set(ids)) < len(ids):
        raise InvalidError("The same embedding is listed twice. Remove one of them.", "id")
    wanted = select(Embedding).where(Embedding.id.in_(ids)).options(selectinload(Embedding.measurements))
    with context.sessions() as session:
        by_id = {one.id: one for one in session.scalars(wanted)}
    for embedding_id in ids:
        if (one := by_id.get(embedding_id)) is None:
            raise missing("embedding", embedding_id, "id")
        require_measured(one, "a comparison")
    return [by_id[embedding_id] for embedding_id in ids]


def distinct_names(embeddings: Iterable[Embedding]) -> list[str]:
    """The names, with a number behind one that has come before."""
    names: list[str] = []
    for one in embeddings:
        same = [one.name, *(f"{one.name} ({number})" for number in range(2, len(names) + 2))]
        names.append(next(name for name in same if name not in names))
    return names
