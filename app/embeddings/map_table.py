"""A map as a table in Parquet, a row a point, with the columns that embedding-atlas reads: x, y, neighbors."""

import io
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from app.context import Context
from app.db.point_map import MAP, MAP_NEIGHBORS, NO_POINT, MapLabels
from app.embeddings.map_rows import MapRows
from app.embeddings.point_map import PointMap

NEIGHBORS = pa.struct([pa.field("ids", pa.list_(pa.int64())), pa.field("distances", pa.list_(pa.float64()))])


def map_parquet(context: Context, found: PointMap) -> bytes:
    """Return a map as Parquet.

    Columns: ``row``, the place in the file; ``name`` and ``label``, where rows have them; ``x``, ``y`` and ``norm``;
    the columns that it can be colored by; ``neighbors``, ``{"ids": rows of this table, from 0, "distances"}``, null
    where they were not looked at.
    """
    sink = io.BytesIO()
    parquet.write_table(pa.table(_columns(MapRows(context, found), found)), sink)
    return sink.getvalue()


def _columns(rows: MapRows, found: PointMap) -> dict[str, pa.Array | NDArray[Any]]:
    header = found.header
    of = header.sections
    xy = rows.read(MAP, of["xy"]).astype(np.float64).reshape(-1, 2) * header.unit
    columns: dict[str, pa.Array | NDArray[Any]] = {
        "row": np.arange(header.points) if rows.places is None else rows.places.astype(np.int64)
    }
    if header.named:
        columns["name"] = rows.names()
    if header.labels is not None:
        columns["label"] = _labels(rows.read(MAP, of["label"]), header.labels)
    columns |= {"x": xy[:, 0], "y": xy[:, 1], "norm": rows.read(MAP, of["norm"]).astype(np.float64) * header.unit}
    columns["neighbors"] = _neighbors(rows, found)
    for drawn, one in zip(found.columns, header.columns, strict=True):
        values = rows.read(drawn.slug, one.values)
        columns[_free(one.name, columns)] = values if one.labels is None else _labels(values, one.labels)
    return columns


def _free(name: str, taken: dict[str, Any]) -> str:
    """Return the name, or the first with a number behind it that no column has."""
    names = (name, *(f"{name} {number}" for number in range(2, len(taken) + 3)))
    return next(one for one in names if one not in taken)


def _labels(codes: NDArray[Any], labels: MapLabels) -> pa.Array:
    """Labels of points, null where a point has none."""
    empty = np.array([not name for name in labels.names])
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=empty[codes]), pa.array(labels.names))


def _neighbors(rows: MapRows, found: PointMap) -> pa.Array:
    """Neighbors of points as embedding-atlas reads them."""
    listed: list[dict[str, list[Any]] | None] = [None] * found.header.points
    if (near := found.header.neighbors) is not None:
        points, neighbors, distances = (
            rows.read(MAP_NEIGHBORS, near.sections[name]) for name in ("point", "neighbor", "distance")
        )
        far = distances.astype(np.float64) * near.unit_of(found.header.unit)
        pairs = zip(points.tolist(), neighbors.reshape(-1, near.k), far.reshape(-1, near.k), strict=True)
        for point, ids, own in pairs:
            there = ids != NO_POINT
            listed[point] = {"ids": ids[there].tolist(), "distances": own[there].tolist()}
    return pa.array(listed, NEIGHBORS)
