"""The files of a map: coordinates, norms, places and labels of its rows as bytes, and their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray

from app.db.point_map import MAP, MAP_NAMES, MapHeader, MapLabels, Section, SectionType
from isoscope.files.matrix import Matrix
from isotropy.cloud import Cloud
from isotropy.point_map import PointMap
from isotropy.projection import NAME_CHARACTERS, frequent_labels

SectionName = Literal["xy", "norm", "row", "label"]


@dataclass(frozen=True)
class MapFiles:
    """What is stored of a map."""

    header: MapHeader
    points: bytes
    names: bytes | None
    """None where rows have no names."""

    @property
    def stored(self) -> dict[str, bytes]:
        """The files by slug."""
        return {MAP: self.points} | ({} if self.names is None else {MAP_NAMES: self.names})


def map_files(cloud: Cloud, matrix: Matrix, mapped: PointMap, projection: Mapping[str, Any]) -> MapFiles | None:
    """Return the files of a map; None where there are no points, for the reason that the projection has."""
    if projection["reason"] is not None:
        return None
    found = mapped.found(cloud.unit)
    places = found.rows if matrix.row_places is None else matrix.row_places[found.rows]
    numbers: dict[SectionName, NDArray[Any]] = {"xy": found.xy.ravel(), "norm": found.norms}
    if not np.array_equal(places, np.arange(len(places))):
        numbers["row"] = places.astype(np.uint32)
    labels = frequent_labels(cloud, torch.from_numpy(found.rows))
    if labels is not None:
        numbers["label"] = labels.codes.numpy().astype(np.uint16)
    sections, points = _joined(numbers)
    named = matrix.selection.names is not None
    header = MapHeader(
        n=cloud.n,
        points=len(found.rows),
        unit=found.unit,
        shares=projection["shares"],
        sections=sections,
        labels=labels
        and MapLabels(names=labels.names, counts=torch.bincount(labels.codes, minlength=len(labels.names)).tolist()),
        named=named,
    )
    return MapFiles(header, points, _names(matrix, found.rows) if named else None)


def _joined(numbers: Mapping[SectionName, NDArray[Any]]) -> tuple[dict[SectionName, Section], bytes]:
    """Return the numbers one behind the other, lowest byte first, and where each section lies."""
    sections: dict[SectionName, Section] = {}
    parts: list[bytes] = []
    offset = 0
    for name, values in numbers.items():
        parts.append(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())
        sections[name] = Section(type=cast("SectionType", values.dtype.name), offset=offset, count=len(values))
        offset += len(parts[-1])
    return sections, b"".join(parts)


def _names(matrix: Matrix, rows: NDArray[np.int64]) -> bytes:
    """Return the names of rows, given by their ascending places among all, a line each."""
    wanted = np.zeros(matrix.n, np.bool_)
    wanted[rows] = True
    values = matrix.contents.values(cast("str", matrix.selection.names))
    return "\n".join(_line(value) for value in compress(values, wanted)).encode()


def _line(name: str) -> str:
    return " ".join(name[:NAME_CHARACTERS].split("\n"))
