"""Comparison of measured embeddings with the first or the previous: differences of measures and their errors."""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, StrEnum, auto
from functools import cached_property
from itertools import pairwise
from math import hypot
from typing import NamedTuple, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import selectinload

from app.context import Context, not_found
from app.core.evidence import block_degrees, t_quantile
from app.core.names import natural_sort_key
from app.db.models import Embedding, Measurement
from app.embeddings.readings import get_similarity
from app.embeddings.service import require_measured
from app.figures.figure import Cell, FigureTable
from isoscope.core.errors import InvalidError
from isoscope.files.selection import unpack_rows
from isotropy.catalog import MEASURES, SIMILARITIES, Measure, Similarity

MIN_COMPARED = 2
MAX_SIDE_BY_SIDE = 8
MAX_COMPARED = 200  # More ids would not fit into one URL
DEFAULT_MEASURE = "isoscore_unbiased"
ROUNDING_TOLERANCE = 1e-7
"""Two values that differ by at most this fraction of the larger count as equal, because of float32 rounding."""
RANGE_TOLERANCE = 1e-9
"""So do values that differ by at most this fraction of the measure's range."""
ROWS_PER_DIMENSION = 10  # With fewer, IsoScore is visibly biased
MEASURED_EARLIER = "Measured by an earlier version. Measure it again to get an interval."
NO_STANDARD_ERROR = "One of the two has no standard error: it needs more independent rows."
NUMBER = re.compile(r"\d+")
Item = TypeVar("Item")


class Pairing(Enum):
    """How the rows of two embeddings correspond. Differences are paired only within equal blocks of rows."""

    PAIRED = auto()  # the same rows in the same order and blocks
    OTHER_ORDER = auto()  # rows of the same names in another order
    OTHER_BLOCKS = auto()  # the same rows in the same order, but not in the same blocks
    UNKNOWN_BLOCKS = auto()  # the same rows in the same order; an earlier version did not store the blocks of one
    INDEPENDENT = auto()  # not known to be the same rows


UNPAIRED_REASONS = {
    Pairing.OTHER_ORDER: "in another order. Sort both by name to have them paired",
    Pairing.OTHER_BLOCKS: "but other rows of them are duplicates, in groups or left out",
    Pairing.UNKNOWN_BLOCKS: "but an earlier version measured one of them. Measure it again to have them paired",
}


def find_pairing(embedding: Embedding, counterpart: Embedding, source_candidates: Sequence[Embedding]) -> Pairing:
    """Return how the rows of two embeddings correspond.

    They correspond if one embedding was made from the other, or both from a third, directly or through
    ``source_candidates``; if both are layers of one encoding or read from the same files; or if they have the same
    names in the same order.
    """
    sources = {candidate.id: candidate for candidate in source_candidates}
    first, second = (side.independent or {} for side in (embedding, counterpart))

    def agree(key: str) -> bool:
        return first.get(key) is not None and first.get(key) == second.get(key)

    if embedding.n != counterpart.n:
        return Pairing.INDEPENDENT
    origins, counterpart_origins = (set(_iterate_origin_keys(side, sources)) for side in (embedding, counterpart))
    if not agree("names") and origins.isdisjoint(counterpart_origins):
        return Pairing.OTHER_ORDER if agree("names_in_any_order") else Pairing.INDEPENDENT
    if not (first and second):
        return Pairing.UNKNOWN_BLOCKS
    same_blocks = first["blocks"] == second["blocks"] and embedding.n_left_out == counterpart.n_left_out
    return Pairing.PAIRED if same_blocks else Pairing.OTHER_BLOCKS


def _iterate_origin_keys(embedding: Embedding, sources: dict[str, Embedding]) -> Iterator[object]:
    """Yield keys for where an embedding's rows come from. Two embeddings share a key if they have the same origin."""
    origin = embedding
    # A selection without some rows is a separate origin, because its source has more rows.
    while not list_rows_left_out(origin) and origin.source_id is not None and origin.source_id in sources:
        origin = sources[origin.source_id]
    yield origin.id if list_rows_left_out(origin) else origin.encoding_id or origin.source_id or origin.id
    if embedding.files:
        transposed = bool((embedding.selection or {}).get("transpose"))
        yield transposed, tuple(list_rows_left_out(embedding)), *(file.file_sha256 for file in embedding.files)


def list_rows_left_out(embedding: Embedding) -> list[int]:
    """Return the positions in the file of the rows that an embedding's selection leaves out."""
    rows: list[int] = unpack_rows((embedding.selection or {}).get("without_rows", []))
    return rows


class Difference(NamedTuple):
    """A value minus the baseline's, with its 95% interval. ``se``, ``low`` and ``high`` are None without one."""

    value: float
    se: float | None = None
    low: float | None = None
    high: float | None = None
    paired: bool = False
    n: int | None = None  # Number of rows of each embedding that the difference was computed from; None for all of them
    reason: str = ""  # Why there is no interval; else empty

    @property
    def excludes_zero(self) -> bool | None:
        return None if self.low is None or self.high is None else self.low > 0 or self.high < 0


class _Estimate(NamedTuple):
    """A value, and the part of each block of rows in its standard error, which is the norm of the parts."""

    value: float
    parts: list[float]


def subtract_baseline(
    measurement: Measurement | None, baseline: Measurement | None, *, same_rows: bool = False
) -> Difference | None:
    """Subtract the same measure of a baseline embedding. Return None if either value is missing.

    ``same_rows``: whether both embeddings have the same rows in the same order, split into the same blocks.
    """
    if measurement is None or baseline is None or measurement.value is None or baseline.value is None:
        return None
    measure = MEASURES[measurement.measure]
    value = measurement.value - baseline.value
    magnitude = max(abs(measurement.value), abs(baseline.value))
    # The range in two dimensions; it only scales the tolerance.
    low, high = measure.bounds(max(measurement.n, 2), 2) if measure.bounds is not None else (0.0, 0.0)
    if abs(value) <= max(ROUNDING_TOLERANCE * magnitude, RANGE_TOLERANCE * (high - low)):
        return Difference(0.0, reason="No difference: the values are equal up to rounding.")
    needs_no_resampling = measure.compared == "at any n" or measurement.n == baseline.n
    similarity, baseline_similarity = get_similarity(measurement), get_similarity(baseline)
    reason = ""
    if similarity is not baseline_similarity:
        reason = (
            f"Measured by {SIMILARITIES[similarity]}, the baseline by {SIMILARITIES[baseline_similarity]}. Measure "
            "both by the same similarity."
        )
    elif measure.compared == "never" and measure.corrected:
        reason = f"Biased by the number of rows. Compare {MEASURES[measure.corrected].name} instead."
    elif measure.compared == "never":
        reason = "This measure has no error estimate."
    elif needs_no_resampling and min(len(measurement.parts), len(baseline.parts)) < 2:
        is_old = any(side.se is not None and side.resampled is None for side in (measurement, baseline))
        reason = MEASURED_EARLIER if is_old else NO_STANDARD_ERROR
    if reason:
        return Difference(value, reason=reason)
    if needs_no_resampling:
        first, second = (_Estimate(side.value or 0.0, side.parts) for side in (measurement, baseline))
        return _subtract_estimate(first, second, None, same_rows)
    # Compare estimates from equal numbers of rows, as many as possible. Their keys are numbers of rows.
    estimates, baselines = ((side.resampled or {}).get("at", {}) for side in (measurement, baseline))
    n = max((int(size) for size in estimates.keys() & baselines.keys()), default=0)
    if n == 0:
        return Difference(value, reason=f"Depends on the number of rows, here {measurement.n:,} and {baseline.n:,}.")
    return _subtract_estimate(_Estimate(**estimates[str(n)]), _Estimate(**baselines[str(n)]), n, same_rows)


def _subtract_estimate(estimate: _Estimate, baseline: _Estimate, n: int | None, same_rows: bool) -> Difference:
    value = estimate.value - baseline.value
    paired = same_rows and len(estimate.parts) == len(baseline.parts)
    if paired:
        se = hypot(*(part - baseline_part for part, baseline_part in zip(estimate.parts, baseline.parts, strict=True)))
    else:
        se = hypot(*estimate.parts, *baseline.parts)
    # The degrees of freedom of the smaller number of blocks make the interval of independent rows conservative.
    degrees = block_degrees(min(len(estimate.parts), len(baseline.parts)))
    half_width = t_quantile(p=0.05, degrees=degrees) * se
    return Difference(value, se, value - half_width, value + half_width, paired, n)


class BaselineChoice(StrEnum):
    """The embedding that each of a series is compared with: the first, or the one before it."""

    FIRST = "first"
    PREVIOUS = "previous"


def pair_with_baselines(items: Sequence[Item], choice: BaselineChoice) -> list[tuple[Item, Item]]:
    """Return the pair (baseline, item) of each item but the first."""
    return [(items[0] if choice is BaselineChoice.FIRST else previous, item) for previous, item in pairwise(items)]


class ComparedMeasure(NamedTuple):
    """A measure of several embeddings, in their order. Differences are None for the first one and if undefined."""

    measure: Measure
    measurements: list[Measurement | None]
    differences: list[Difference | None]  # Differences from the first embedding
    changes: list[Difference | None]  # Differences from the previous embedding

    @property
    def differs(self) -> bool:
        return any(difference is not None and difference.excludes_zero for difference in self.differences)

    @property
    def is_testable(self) -> bool:
        """Return whether some difference has an interval or is 0."""
        return any(
            difference is not None and (difference.se is not None or difference.value == 0)
            for difference in self.differences
        )


class EmbeddingComparison:
    """Several embeddings with distinct names, and the measures that at least one of them has."""

    def __init__(self, embeddings: Sequence[Embedding]) -> None:
        self.embeddings = embeddings
        self.names = make_names_distinct(embeddings)

    @cached_property
    def measures(self) -> list[ComparedMeasure]:
        measurements_by_slug = [{row.measure: row for row in embedding.measurements} for embedding in self.embeddings]
        compared = []
        for slug, measure in MEASURES.items():
            measurements = [row.get(slug) for row in measurements_by_slug]
            if any(measurements):
                differences, changes = (self._subtract_baselines(measurements, choice) for choice in BaselineChoice)
                compared.append(ComparedMeasure(measure, measurements, differences, changes))
        return compared

    def _subtract_baselines(
        self, measurements: list[Measurement | None], choice: BaselineChoice
    ) -> list[Difference | None]:
        pairs = zip(pair_with_baselines(measurements, choice), self._same_rows_by_choice[choice], strict=True)
        return [
            None,
            *(subtract_baseline(item, baseline, same_rows=same_rows) for (baseline, item), same_rows in pairs),
        ]

    @cached_property
    def _same_rows_by_choice(self) -> dict[BaselineChoice, list[bool]]:
        """Return, for each choice, whether each embedding but the first has its baseline's rows, order and blocks."""
        return {
            choice: [
                find_pairing(embedding, baseline, self.embeddings) is Pairing.PAIRED
                for baseline, embedding in pair_with_baselines(self.embeddings, choice)
            ]
            for choice in BaselineChoice
        }

    @property
    def are_layers(self) -> bool:
        """Return whether the embeddings are different layers of one encoding or of the same uploaded files."""
        origins = {
            (embedding.encoding_id, embedding.pooling)
            if embedding.encoding_id
            else tuple(file.file_sha256 for file in embedding.files)
            for embedding in self.embeddings
        }
        layers = {embedding.layer for embedding in self.embeddings}
        return len(origins) == 1 and None not in layers and len(layers) == len(self.embeddings)

    @property
    def is_ordered(self) -> bool:
        """Return whether the order is meaningful: layers, names that differ in a number, or many embeddings."""
        names = [embedding.name for embedding in self.embeddings]
        are_checkpoints = len({NUMBER.sub("#", name) for name in names}) == 1 and len(set(names)) == len(names)
        return self.are_layers or are_checkpoints or not self.fits_side_by_side

    @property
    def fits_side_by_side(self) -> bool:
        return len(self.embeddings) <= MAX_SIDE_BY_SIDE

    @property
    def labels(self) -> list[str]:
        """Return the labels of the embeddings on an axis: layer numbers, else numbers from 1."""
        return [str(item.layer if self.are_layers else number) for number, item in enumerate(self.embeddings, 1)]

    @property
    def axis(self) -> str:
        return "Layer" if self.are_layers else "Step"

    def get_measure(self, slug: str) -> ComparedMeasure | None:
        """Return the measure of a slug, or else the default, or the first; None if no embedding has any value."""
        measures = {
            compared.measure.slug: compared
            for compared in self.measures
            if any(measurement and measurement.value is not None for measurement in compared.measurements)
        }
        return measures.get(slug) or measures.get(DEFAULT_MEASURE) or next(iter(measures.values()), None)

    @property
    def table(self) -> FigureTable:
        """Return one row per value, with its difference from the first embedding and from the previous one."""
        columns = ["measure", "embedding", "id", "value", "se", "n", "reason"]
        # The fields of a Difference, in their order, and ``excludes_zero``.
        names = ("difference", "difference_se", "low", "high", "paired", "rows", "why_no_interval", "excludes_zero")
        columns += [*names, *(f"{name}_from_previous" for name in names)]
        rows: list[list[Cell]] = []
        for compared in self.measures:
            for embedding, name, measurement, *differences in zip(
                self.embeddings, self.names, compared.measurements, compared.differences, compared.changes, strict=True
            ):
                values: list[Cell] = [None] * 4
                if measurement:
                    values = [measurement.value, measurement.se, measurement.n, measurement.reason]
                for difference in differences:
                    values += [*difference, difference.excludes_zero] if difference else [None] * len(names)
                rows.append([compared.measure.slug, name, embedding.id, *values])
        return FigureTable(columns, rows)

    @property
    def cautions(self) -> list[str]:
        names = dict(zip((embedding.id for embedding in self.embeddings), self.names, strict=True))
        n_rows = {embedding.id: embedding.n_measured for embedding in self.embeddings}
        sentences = []
        small_embeddings = [
            embedding for embedding in self.embeddings if n_rows[embedding.id] < ROWS_PER_DIMENSION * (embedding.d or 0)
        ]
        if small_embeddings and len(set(n_rows.values())) > 1:
            sizes = ", ".join(
                f"{names[embedding.id]} ({n_rows[embedding.id]:,} rows for {embedding.d:,} dimensions)"
                for embedding in small_embeddings
            )
            sentences.append(
                f"Numbers of rows differ, and with fewer than {ROWS_PER_DIMENSION} rows per dimension IsoScore is "
                f"biased low: {sizes}. Read the bias-corrected IsoScore instead, or compare equal numbers of rows."
            )
        if len(dimensions := {embedding.d or 0 for embedding in self.embeddings}) > 1:
            sizes = ", ".join(f"{d:,}" for d in sorted(dimensions))
            sentences.append(
                f"Numbers of dimensions differ ({sizes}): measures whose range grows with d, such as ranks, cannot be "
                "compared."
            )
        similarities = {
            embedding.id: (embedding.selection or {}).get("similarity") or Similarity.EUCLIDEAN
            for embedding in self.embeddings
        }
        if len(set(similarities.values())) > 1:
            listed = ", ".join(f"{names[key]} ({SIMILARITIES[value]})" for key, value in similarities.items())
            sentences.append(
                f"Similarities differ: {listed}. Hubness cannot be compared: measure all by the same similarity."
            )
        unpaired_by_reason: dict[str, list[str]] = {}
        for embedding in self.embeddings[1:]:
            if reason := UNPAIRED_REASONS.get(find_pairing(embedding, self.embeddings[0], self.embeddings)):
                unpaired_by_reason.setdefault(reason, []).append(names[embedding.id])
        sentences += [
            f"{', '.join(unpaired_names)} and {self.names[0]} hold the same rows, {reason}. Their intervals are those "
            "of independent rows, usually wider than necessary."
            for reason, unpaired_names in unpaired_by_reason.items()
        ]
        sentences += [
            f"{names[embedding.id]} was fitted on {embedding.provenance['fit_rows']:,} of its {n_rows[embedding.id]:,} "
            "rows, which flatters its numbers: the lab judges the method on rows it has not seen."
            for embedding in self.embeddings
            if embedding.provenance and "fit_rows" in embedding.provenance
        ]
        return sentences


def suggest_order(embeddings: Sequence[Embedding]) -> list[Embedding]:
    """Sort layers by number and checkpoints by name. Otherwise put sources of the others first, then the oldest."""
    comparison = EmbeddingComparison(embeddings)
    if comparison.are_layers:
        return sorted(embeddings, key=lambda embedding: embedding.layer or 0)
    if comparison.is_ordered and comparison.fits_side_by_side:
        return sorted(embeddings, key=lambda embedding: natural_sort_key(embedding.name))
    sources = {embedding.source_id for embedding in embeddings}
    return sorted(embeddings, key=lambda embedding: (embedding.id not in sources, embedding.created_at, embedding.id))


def get_embeddings_to_compare(context: Context, ids: Sequence[str], maximum: int = MAX_COMPARED) -> list[Embedding]:
    """Return 2 to ``maximum`` embeddings with measurements, in this order. Raise as ``get_measured_embeddings``."""
    if not MIN_COMPARED <= len(ids) <= maximum:
        expected = f"{MIN_COMPARED} to {maximum}" if maximum > MIN_COMPARED else f"{MIN_COMPARED}"
        raise InvalidError(f"Expected {expected} embeddings to compare, got {len(ids)}.", "id")
    return get_measured_embeddings(context, ids)


def get_measured_embeddings(context: Context, ids: Sequence[str]) -> list[Embedding]:
    """Return embeddings with measurements, in this order. Raise if one is unknown, repeated or unmeasured."""
    if len(ids) > MAX_COMPARED:
        raise InvalidError(f"Expected at most {MAX_COMPARED} embeddings, got {len(ids)}. Leave some out.", "id")
    if len(set(ids)) < len(ids):
        raise InvalidError("The same embedding is listed twice. Remove one of them.", "id")
    statement = select(Embedding).where(Embedding.id.in_(ids)).options(selectinload(Embedding.measurements))
    with context.sessions() as session:
        embeddings_by_id = {embedding.id: embedding for embedding in session.scalars(statement)}
    for embedding_id in ids:
        if (embedding := embeddings_by_id.get(embedding_id)) is None:
            raise not_found("embedding", embedding_id, "id")
        require_measured(embedding, "a comparison")
    return [embeddings_by_id[embedding_id] for embedding_id in ids]


def make_names_distinct(embeddings: Iterable[Embedding]) -> list[str]:
    """Return the names of embeddings, in order, with a number after repeated names."""
    names: list[str] = []
    for embedding in embeddings:
        candidates = [embedding.name, *(f"{embedding.name} ({number})" for number in range(2, len(names) + 2))]
        names.append(next(name for name in candidates if name not in names))
    return names
