"""The layers of an encoding, each an embedding, and the report by layer."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, NamedTuple
from urllib.parse import urlencode

from fastapi import Depends, Query
from sqlalchemy import select
from sqlalchemy.orm import defer, lazyload, selectinload

from app.context import Context
from app.db.models import Embedding, EmbeddingStatus, Encoding, Measurement, Pooling
from app.embeddings.choice import Choice
from app.embeddings.figures.overlay import Subject
from app.embeddings.readings import grouped
from app.encodings.figures import LayerPoint, Row, by_layer, heat_map
from app.figures.figure import Figure
from isotropy.catalog import MEASURES, Measure, measures_in


def list_layers(context: Context, encoding_id: str, measures: Sequence[str] | None = None) -> list[Embedding]:
    """The embeddings of an encoding by layer and pooling, with these measurements or all, without their details.

    Two queries, however many there are; those in the trash are left out.
    """
    found = select(Embedding).where(Embedding.encoding_id == encoding_id, Embedding.trashed_at.is_(None))
    wanted = (
        Embedding.measurements if measures is None else Embedding.measurements.and_(Measurement.measure.in_(measures))
    )
    options = (
        defer(Embedding.inspection, raiseload=True),
        defer(Embedding.selection, raiseload=True),
        lazyload(Embedding.files),
        lazyload(Embedding.tags),
        selectinload(wanted).defer(Measurement.detail, raiseload=True),
    )
    with context.sessions() as session:
        layers = session.scalars(found.order_by(Embedding.layer, Embedding.pooling).options(*options))
        return list(layers)


def list_measured(context: Context, encoding_id: str) -> set[str]:
    """The measures that have a value at some layer of an encoding that is not in the trash."""
    of_layers = select(Measurement.measure).join(Embedding, Embedding.id == Measurement.embedding_id)
    in_use = of_layers.where(Embedding.encoding_id == encoding_id, Embedding.trashed_at.is_(None))
    valued = in_use.where(Measurement.value.is_not(None))
    with context.sessions() as session:
        return set(session.scalars(valued.distinct()))


SHOWN = tuple(measure.slug for measure in measures_in("layers"))
"""The measures of the heat map unless others are chosen, those of them that have a value at some layer."""
BUSY = (EmbeddingStatus.INSPECTING, EmbeddingStatus.MEASURING)


class LayersQuery(NamedTuple):
    """What the URL says: a pooling, the measures of the heat map, and the one that is drawn by layer."""

    pooling: Pooling | None
    measures: tuple[str, ...]
    by: str

    def encoded(self, pooling: Pooling | None = None) -> str:
        """The query string again, or that of another pooling."""
        chosen = pooling or self.pooling
        given = [("pooling", chosen.value)] if chosen else []
        given += [("measures", slug) for slug in self.measures]
        return urlencode([*given, ("by", self.by)] if self.by else given)


class LayerValue(NamedTuple):
    """A measure at a layer."""

    layer: int
    value: float
    se: float | None
    embedding_id: str


class Layers(NamedTuple):
    """What the page shows of them."""

    query: LayersQuery
    poolings: list[Pooling]
    pooling: Pooling
    embeddings: list[Embedding]
    """Of all layers under that pooling."""
    offered: list[Measure]
    """Measures that have a value at some layer."""
    measures: list[Measure]
    """Those of the heat map."""
    by: Measure | None
    waiting: int
    """Embeddings of all poolings that are not measured yet."""
    total: int
    figures: list[Figure]

    @property
    def compared(self) -> str:
        """The way to the first, the middle and the last layer side by side; empty where there are not two."""
        ready = self._ready
        chosen = dict.fromkeys([ready[0], ready[len(ready) // 2], ready[-1]]) if ready else {}
        return Choice(list(chosen)).url() if len(chosen) > 1 else ""

    @property
    def as_series(self) -> str:
        """The way to all layers as a series; empty where there are not two."""
        return Choice(self._ready, series=True).url() if len(self._ready) > 1 else ""

    @property
    def _ready(self) -> list[str]:
        return [one.id for one in self.embeddings if one.status is EmbeddingStatus.READY]

    @property
    def groups(self) -> dict[str, list[Measure]]:
        """The measures that are offered, by the heading of their group."""
        return grouped(self.offered, lambda measure: measure)

    def extremes(self, slug: str) -> tuple[LayerValue, LayerValue] | None:
        """The layers with the least and the greatest value of a measure; None where fewer than two have one."""
        known = [
            LayerValue(layer.layer or 0, one.value, one.se, layer.id)
            for layer in self.embeddings
            for one in layer.measurements
            if one.measure == slug and one.value is not None
        ]
        by_value = attrgetter("value")
        return (min(known, key=by_value), max(known, key=by_value)) if len(known) > 1 else None

    def found(self, embedding: Embedding) -> list[Measurement | None]:
        """The measurements of a layer in the order of the heat map's measures."""
        found = {one.measure: one for one in embedding.measurements}
        return [found.get(measure.slug) for measure in self.measures]


def read_layers(context: Context, encoding: Encoding, query: LayersQuery) -> Layers:
    """The layers of a finished encoding as the query wants them: a handful of queries, however many there are."""
    measured = list_measured(context, encoding.id)
    chosen = [slug for slug in query.measures or SHOWN if slug in measured]
    by = query.by if query.by in measured else next(iter(chosen), "")
    everything = list_layers(context, encoding.id, [*chosen, by])
    poolings = [pooling for pooling in Pooling if any(one.pooling is pooling for one in everything)] or [Pooling.MEAN]
    pooling = query.pooling if query.pooling in poolings else _likeliest(poolings)
    embeddings = [one for one in everything if one.pooling is pooling]
    return Layers(
        query=query,
        poolings=poolings,
        pooling=pooling,
        embeddings=embeddings,
        offered=[measure for slug, measure in MEASURES.items() if slug in measured],
        measures=[MEASURES[slug] for slug in chosen if slug in MEASURES],
        by=MEASURES.get(by),
        waiting=sum(one.status in BUSY for one in everything),
        total=len(everything),
        figures=[_heat_map(embeddings, chosen), *_by_layer(MEASURES.get(by), poolings, everything)],
    )


def _likeliest(poolings: Sequence[Pooling]) -> Pooling:
    return Pooling.MEAN if Pooling.MEAN in poolings else poolings[0]


def _heat_map(embeddings: Sequence[Embedding], measures: Sequence[str]) -> Figure:
    ready = [one for one in embeddings if one.status is EmbeddingStatus.READY]
    return heat_map(
        [Row(one.layer or 0, f"/embeddings/{one.id}", Subject.from_embedding(one)) for one in ready], measures
    )


def _by_layer(measure: Measure | None, poolings: Sequence[Pooling], embeddings: Sequence[Embedding]) -> list[Figure]:
    if measure is None:
        return []
    lines = {
        pooling: [
            LayerPoint(one.layer or 0, found)
            for one in embeddings
            if one.pooling is pooling
            for found in one.measurements
            if found.measure == measure.slug
        ]
        for pooling in poolings
    }
    return [by_layer(measure, lines)]


def _layers(
    pooling: Pooling | None = None, measures: Annotated[list[str] | None, Query()] = None, by: str = ""
) -> LayersQuery:
    known = tuple(slug for slug in MEASURES if slug in (measures or []))
    return LayersQuery(pooling, known, by if by in MEASURES else "")


LayersDep = Annotated[LayersQuery, Depends(_layers)]
