"""A map as a Parquet table with a row for each point and the columns that Embedding Atlas reads."""

import io
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from app.db.point_map import MAP, NO_POINT, MapLabels
from app.embeddings.point_map import StoredMap

NEIGHBORS = pa.struct([pa.field("ids", pa.list_(pa.int64())), pa.field("distances", pa.list_(pa.float64()))])


def write_parquet(stored_map: StoredMap) -> bytes:
    """Return a map as Parquet.

    Columns: ``row``, the position in the file; ``name`` and ``label``, if rows have them; ``x``, ``y`` and ``norm``;
    ``layout_x`` and ``layout_y``, if there is a neighbor layout, NaN for rows that it leaves out;
    ``neighbors``, ``{"ids": rows of this table, from 0, "distances": ...}``, null if not computed; and the columns that
    color the map.
    """
    header = stored_map.header
    columns: dict[str, pa.Array | NDArray[Any]] = {"row": stored_map.positions.astype(np.int64)}
    if header.named:
        columns["name"] = stored_map.names
    if header.labels is not None:
        columns["label"] = _encode_labels(stored_map.read(MAP, header.sections["label"]), header.labels)
    columns |= {"x": stored_map.xy[:, 0], "y": stored_map.xy[:, 1], "norm": stored_map.norms}
    if header.layout is not None:
        columns |= dict(zip(("layout_x", "layout_y"), stored_map.layout_xy.T.copy(), strict=True))
    neighbors_by_point: list[dict[str, list[Any]] | None] = [None] * header.points
    for point, neighbors, distances in zip(*stored_map.read_neighbors(), strict=True):
        is_present = neighbors != NO_POINT
        neighbors_by_point[point] = {"ids": neighbors[is_present].tolist(), "distances": distances[is_present].tolist()}
    columns["neighbors"] = pa.array(neighbors_by_point, NEIGHBORS)
    for index, column in enumerate(header.columns):
        values = stored_map.read_column(index)
        candidates = (column.name, *(f"{column.name} {suffix}" for suffix in range(2, len(columns) + 3)))
        name = next(candidate for candidate in candidates if candidate not in columns)
        if column.dates:
            columns[name] = pa.array(np.floor(values), mask=np.isnan(values)).cast(pa.int32()).cast(pa.date32())
        else:
            columns[name] = values if column.labels is None else _encode_labels(values, column.labels)
    sink = io.BytesIO()
    parquet.write_table(pa.table(columns), sink)
    return sink.getvalue()


def _encode_labels(codes: NDArray[Any], labels: MapLabels) -> pa.Array:
    """Return the labels of codes as a dictionary column, null where a label is empty."""
    is_empty = np.array([not name for name in labels.names])
    indices = pa.array(codes.astype(np.int32), mask=is_empty[codes])
    return pa.DictionaryArray.from_arrays(indices, pa.array(labels.names))
