"""The report of an encoding by layer: measures of all layers under one pooling, and one measure under all."""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from app.context import Context
from app.db.models import Embedding, EmbeddingStatus, Encoding, Measurement, Pooling
from app.embeddings.readings import grouped
from app.figures.figure import Figure
from app.figures.heat_map import Row, heat_map
from app.figures.layers import LayerPoint, by_layer
from app.figures.subject import Subject
from app.services.layers import list_layers, list_measured
from isotropy.catalog import MEASURES, Measure, measures_in

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
        ready = [one.id for one in self.embeddings if one.status is EmbeddingStatus.READY]
        chosen = dict.fromkeys([ready[0], ready[len(ready) // 2], ready[-1]]) if ready else {}
        return f"/compare?{urlencode([('id', one) for one in chosen])}" if len(chosen) > 1 else ""

    @property
    def groups(self) -> dict[str, list[Measure]]:
        """The measures that are offered, by the heading of their group."""
        return grouped(self.offered, lambda measure: measure)

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
    return heat_map([Row(one.layer or 0, f"/embeddings/{one.id}", Subject.of(one)) for one in ready], measures)


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
