"""Embeddings of the same rows in an order, such as layers or checkpoints: a measure over the steps and its changes."""

from collections.abc import Sequence
from typing import NamedTuple

from app.context import Context
from app.db.models import Embedding, Measurement
from app.embeddings.alignments import Aligned, Pair, alignments_of, pairs_of
from app.embeddings.comparison import FOUND, Against, Compared, Difference, compare, distinct_names, found_cells
from app.figures.figure import Cell, Table
from isotropy.catalog import Measure

USUAL = "isoscore_unbiased"
"""The measure that is drawn first."""


class Step(NamedTuple):
    """A measure at one step of a series."""

    found: Measurement | None
    from_previous: Difference | None
    """Its change from the step before; None at the first."""
    from_first: Difference | None


class SeriesMeasure(NamedTuple):
    """A measure over all steps."""

    measure: Measure
    steps: list[Step]

    @property
    def ends(self) -> tuple[Measurement | None, Measurement | None]:
        """What was found at the first and at the last step."""
        return self.steps[0].found, self.steps[-1].found

    @property
    def change(self) -> Difference | None:
        """From the first step to the last."""
        return self.steps[-1].from_first


class Similar(NamedTuple):
    """How alike the rows of each step are to those of two others; None where the two share no rows."""

    to_previous: list[Aligned | None]
    to_first: list[Aligned | None]

    @property
    def pairs(self) -> list[Aligned]:
        """Each pair once."""
        return [one for one in (*self.to_previous, *self.to_first[1:]) if one is not None]


class Series(NamedTuple):
    """Embeddings in order, with names that tell them apart."""

    embeddings: Sequence[Embedding]
    names: list[str]
    measures: list[SeriesMeasure]

    @property
    def of_layers(self) -> bool:
        """Whether the steps are layers of one encoding or of one uploaded file, each another one."""
        origins = {
            (one.encoding_id, one.pooling) if one.encoding_id else tuple(file.file_sha256 for file in one.files)
            for one in self.embeddings
        }
        layers = {one.layer for one in self.embeddings}
        return len(origins) == 1 and None not in layers and len(layers) == len(self.embeddings)

    @property
    def labels(self) -> list[str]:
        """What each step is called on an axis: the number of its layer, else its own."""
        numbers = [one.layer for one in self.embeddings] if self.of_layers else range(1, len(self.embeddings) + 1)
        return [str(number) for number in numbers]

    @property
    def axis(self) -> str:
        """The title of that axis."""
        return "Layer" if self.of_layers else "Step"

    def of(self, slug: str) -> SeriesMeasure | None:
        """The measure of a slug, else the usual one, else the first."""
        by_slug = {one.measure.slug: one for one in self.measures}
        return by_slug.get(slug) or by_slug.get(USUAL) or next(iter(self.measures), None)


def series_of(embeddings: Sequence[Embedding]) -> Series:
    """Return every measure over embeddings in this order that has a value at some step."""
    rows = zip(compare(embeddings, Against.PREVIOUS), compare(embeddings, Against.FIRST), strict=True)
    measures = [_over_steps(*both) for both in rows]
    valued = [one for one in measures if any(step.found and step.found.value is not None for step in one.steps)]
    return Series(embeddings, distinct_names(embeddings), valued)


def _over_steps(previous: Compared, first: Compared) -> SeriesMeasure:
    steps = zip(previous.found, previous.differences, first.differences, strict=True)
    return SeriesMeasure(previous.measure, [Step(*one) for one in steps])


def series_pairs(embeddings: Sequence[Embedding]) -> list[Pair]:
    """Return each step behind the one before, and each but the second behind the first."""
    return [*pairs_of(embeddings, Against.PREVIOUS), *pairs_of(embeddings, Against.FIRST)[1:]]


def similar_steps(context: Context, embeddings: Sequence[Embedding]) -> Similar:
    """Return how alike steps are, as far as it was asked for."""
    known = {(one.base.id, one.embedding.id): one for one in alignments_of(context, series_pairs(embeddings))}
    return Similar(
        *(
            [known.get((base.id, one.id)) for base, one in pairs_of(embeddings, against)]
            for against in (Against.PREVIOUS, Against.FIRST)
        )
    )


CHANGE = ("change", "se", "low", "high", "paired", "rows", "why_no_interval")


def table_of(series: Series) -> Table:
    """Every measure at every step in a row of its own, with its changes."""
    columns = ["measure", "step", "embedding", "id", *FOUND]
    columns += [f"{name}_from_{against}" for against in Against for name in CHANGE]
    lines: list[list[Cell]] = []
    for row in series.measures:
        for number, (embedding, name, step) in enumerate(
            zip(series.embeddings, series.names, row.steps, strict=True), 1
        ):
            changes = [cell for one in (step.from_first, step.from_previous) for cell in one or [None] * len(CHANGE)]
            lines.append([row.measure.slug, number, name, embedding.id, *found_cells(step.found), *changes])
    return Table(columns, lines)
