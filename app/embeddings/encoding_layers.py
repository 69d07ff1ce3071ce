"""The layers of an encoding, which are embeddings, and the report by layer."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, NamedTuple
from urllib.parse import urlencode

from fastapi import Depends, Query
from sqlalchemy import select
from sqlalchemy.orm import defer, lazyload, selectinload

from app.context import Context
from app.db.models import Embedding, EmbeddingStatus, Encoding, Measurement, Pooling
from app.embeddings.choice import ComparisonChoice
from app.embeddings.family import LayerRanking, rank_layers
from app.embeddings.figures.layers import HeatMapRow, LayerPoint, heat_map, measure_by_layer
from app.embeddings.readings import group_items
from app.figures.figure import Figure
from isotropy.catalog import MEASURES, Measure, measures_in

# Default measures of the heat map. Those without a value at any layer are left out.
DEFAULT_MEASURES = tuple(measure.slug for measure in measures_in("layers"))
UNFINISHED_STATUSES = (EmbeddingStatus.INSPECTING, EmbeddingStatus.MEASURING)


class LayersQuery(NamedTuple):
    """Query of the report by layer."""

    pooling: Pooling | None  # None for the default: the mean if the encoding has it, else its first pooling
    measures: tuple[str, ...]  # Slugs of the measures of the heat map; empty for the default ones
    by: str  # Slug of the measure drawn as a line over layers; empty for the first of the heat map

    def to_query_string(self, pooling: Pooling | None = None) -> str:
        """Return the query string, with ``pooling`` in place of its own if given."""
        pooling = pooling or self.pooling
        pairs = [("pooling", pooling.value)] if pooling else []
        pairs += [("measures", slug) for slug in self.measures]
        return urlencode([*pairs, ("by", self.by)] if self.by else pairs)


class LayerValue(NamedTuple):
    """The value of a measure at a layer."""

    layer: int
    value: float
    se: float | None
    embedding_id: str


class LayersReport(NamedTuple):
    """The report by layer, under one pooling."""

    query: LayersQuery
    poolings: list[Pooling]
    pooling: Pooling
    embeddings: list[Embedding]  # Layers under ``pooling``, in order
    offered: list[Measure]  # Measures with a value at some layer
    groups: dict[str, list[Measure]]  # The offered measures by the heading of their group
    measures: list[Measure]  # Measures of the heat map
    by: Measure | None  # The measure drawn as a line over layers; None if none has a value
    waiting: int  # Number of embeddings under all poolings that are not measured yet, out of ``total``
    total: int
    figures: list[Figure]
    ranking: LayerRanking | None  # Layers ranked by a task with ground truth; None without one

    @property
    def comparison_url(self) -> str:
        ids = [embedding.id for embedding in self.embeddings if embedding.status is EmbeddingStatus.READY]
        return ComparisonChoice(ids).url() if len(ids) > 1 else ""

    def find_extremes(self, slug: str) -> tuple[LayerValue, LayerValue] | None:
        """Return the layers with the minimum and the maximum of a measure; None if fewer than two have a value."""
        values = [
            LayerValue(embedding.layer or 0, measurement.value, measurement.se, embedding.id)
            for embedding in self.embeddings
            for measurement in embedding.measurements
            if measurement.measure == slug and measurement.value is not None
        ]
        by_value = attrgetter("value")
        return (min(values, key=by_value), max(values, key=by_value)) if len(values) > 1 else None

    def list_measurements(self, embedding: Embedding) -> list[Measurement | None]:
        """Return the measurements of a layer in the order of the heat map; None where it has none."""
        measurements = {measurement.measure: measurement for measurement in embedding.measurements}
        return [measurements.get(measure.slug) for measure in self.measures]


def build_layers_report(context: Context, encoding: Encoding, query: LayersQuery) -> LayersReport:
    defined = list_defined_measures(context, encoding.id)
    slugs = [slug for slug in query.measures or DEFAULT_MEASURES if slug in defined]
    curve_slug = query.by if query.by in defined else next(iter(slugs), "")
    embeddings = list_layers(context, encoding.id, [*slugs, curve_slug])
    encoded_poolings = {embedding.pooling for embedding in embeddings}
    poolings = [pooling for pooling in Pooling if pooling in encoded_poolings] or [Pooling.MEAN]
    default_pooling = Pooling.MEAN if Pooling.MEAN in poolings else poolings[0]
    pooling = query.pooling if query.pooling in poolings else default_pooling
    layers = [embedding for embedding in embeddings if embedding.pooling is pooling]
    measures, curve_measure = [MEASURES[slug] for slug in slugs if slug in MEASURES], MEASURES.get(curve_slug)
    rows = [
        HeatMapRow(
            embedding.layer or 0,
            f"/embeddings/{embedding.id}",
            {measurement.measure: measurement for measurement in embedding.measurements},
        )
        for embedding in layers
        if embedding.status is EmbeddingStatus.READY
    ]
    figures = [heat_map(rows, measures)]
    if curve_measure is not None:
        lines = {
            pooling: [
                LayerPoint(embedding.layer or 0, measurement)
                for embedding in embeddings
                if embedding.pooling is pooling
                for measurement in embedding.measurements
                if measurement.measure == curve_slug
            ]
            for pooling in poolings
        }
        figures.append(measure_by_layer(curve_measure, lines))
    offered = [measure for slug, measure in MEASURES.items() if slug in defined]
    return LayersReport(
        query=query,
        poolings=poolings,
        pooling=pooling,
        embeddings=layers,
        offered=offered,
        groups=group_items(offered, lambda measure: measure),
        measures=measures,
        by=curve_measure,
        waiting=sum(embedding.status in UNFINISHED_STATUSES for embedding in embeddings),
        total=len(embeddings),
        figures=figures,
        ranking=rank_layers(context, [embedding.id for embedding in layers]),
    )


def list_layers(context: Context, encoding_id: str, measures: Sequence[str] | None = None) -> list[Embedding]:
    """Return an encoding's layers outside the trash, by layer and pooling. Load only ``measures``, or all for None."""
    measurements = Embedding.measurements
    loaded = measurements if measures is None else measurements.and_(Measurement.measure.in_(measures))
    layers = (
        select(Embedding)
        .where(Embedding.encoding_id == encoding_id, Embedding.trashed_at.is_(None))
        .order_by(Embedding.layer, Embedding.pooling)
        .options(
            defer(Embedding.inspection, raiseload=True),
            defer(Embedding.selection, raiseload=True),
            lazyload(Embedding.files),
            lazyload(Embedding.tags),
            selectinload(loaded).defer(Measurement.detail, raiseload=True),
        )
    )
    return context.scalars(layers)


def list_defined_measures(context: Context, encoding_id: str) -> set[str]:
    """Return the slugs of the measures that have a value at some layer of an encoding."""
    measures = (
        select(Measurement.measure)
        .join(Embedding, Embedding.id == Measurement.embedding_id)
        .where(Embedding.encoding_id == encoding_id, Embedding.trashed_at.is_(None), Measurement.value.is_not(None))
    )
    return set(context.scalars(measures.distinct()))


def _read_query(
    pooling: Pooling | None = None, measures: Annotated[list[str] | None, Query()] = None, by: str = ""
) -> LayersQuery:
    slugs = tuple(slug for slug in MEASURES if slug in (measures or []))
    return LayersQuery(pooling, slugs, by if by in MEASURES else "")


LayersDep = Annotated[LayersQuery, Depends(_read_query)]
