"""Projection of a cloud onto its first three principal components, and a map of all rows in the first two."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh
from torch import Tensor

from isotropy.anisotropy import anisotropy
from isotropy.cloud import Cloud, RowLabels
from isotropy.rows import Sample, finite_chunks
from isotropy.score import OUT_OF_RANGE
from isotropy.spectrum import CHUNK_ROWS

SAFE_RANGE = (1e-30, 1e30)  # Magnitudes that float32 holds with headroom for drawing code


class MappedRows(NamedTuple):
    """Coordinates of mapped rows, in the order of the cloud."""

    xy: NDArray[np.float32]  # [m, 2], in units of `unit`
    norms: NDArray[np.float32]  # Euclidean norm of each row, in the same units
    rows: NDArray[np.int64]  # Positions among the rows of the cloud, ascending
    unit: float  # A power of two, 1 unless float32 would not hold the coordinates


class PointMapCollector:
    """Collects the rows of a map while a projection reads them: all, or ``size`` random ones if there are more."""

    def __init__(self, size: int, seed: int = 0) -> None:
        self._sample = Sample(size, 3, np.dtype(np.float64), seed)  # x, y and norm of each row

    def update(self, xy: NDArray[np.float64], norms: NDArray[Any], rows: NDArray[np.int64]) -> None:
        """Add rows by coordinates [m, 2], norms [m] and positions [m] among the rows of the cloud."""
        self._sample.update(np.column_stack([xy, norms]), rows)

    def mapped_rows(self, unit: float = 1.0) -> MappedRows:
        """Return the collected rows, converted by the unit of the added points."""
        points, rows = (tensor.numpy() for tensor in self._sample.drawn_rows())
        order = rows.argsort()
        values = points[order]
        # Coordinates are ``values * unit``. If float32 does not hold them, divide by a power of two to at most 1.
        largest = float(np.abs(values).max(initial=0.0))
        is_safe = largest == 0 or SAFE_RANGE[0] <= largest * unit <= SAFE_RANGE[1]
        map_unit = 1.0 if is_safe else float(2.0 ** np.frexp(largest)[1]) * unit
        scaled = (values * (unit / map_unit)).astype(np.float32)
        xy, norms = (np.ascontiguousarray(part) for part in (scaled[:, :2], scaled[:, 2]))
        return MappedRows(xy, norms, rows[order], map_unit)


MAX_POINTS = 50_000  # Maximum points drawn; with more rows, a density covers all of them
MAX_NAMES = 1000  # Maximum number of named classes, the largest first
NAME_CHARACTERS = 60
COMPONENTS = 3
BINS = 100  # Bins of the density along each axis
TAIL = 0.001  # Share of the rows at each end of an axis that the density range ignores

# Returns the names of rows at positions int64 [m]; None if rows have no names.
NamesOf = Callable[[Tensor], list[str] | None]


def projection(
    cloud: Cloud, seed: int = 0, names_of: NamesOf = lambda _: None, collector: PointMapCollector | None = None
) -> dict[str, Any]:
    """Return coordinates along the first three principal components, relative to the mean.

    At most ``MAX_POINTS`` points are drawn. The largest loading of an axis is positive; an axis without variance is 0.
    The dictionary has ``n``, ``x``, ``y``, ``z``, ``rows`` (positions), ``shares`` (of the variance), ``names``,
    ``labels`` (``codes``, and their ``names`` by frequency, empty last), ``density`` of all rows in the first two axes
    (None where all are drawn) and ``reason`` (why there are no points). ``names_of`` maps positions int64 [m] to names
    or None; ``collector`` collects every row in the same pass.
    """
    if (reason := cloud.moment_scores["participation_ratio"].reason) is not None:
        return _empty_projection(cloud, reason)
    axes = _Axes(cloud)
    drawn = Sample(min(cloud.n, MAX_POINTS), COMPONENTS, np.dtype(np.float64), seed)
    density = _Density(axes.coordinates(cloud.sample)[:, :2]) if cloud.n > MAX_POINTS else None
    for chunk, positions, _ in finite_chunks(cloud.points):
        coordinates = axes.coordinates(chunk)
        drawn.update(coordinates, positions)
        plane = coordinates[:, :2]
        if density is not None:
            density.update(plane)
        if collector is not None:
            collector.update(plane, torch.linalg.vector_norm(chunk, dim=1, dtype=torch.float64).numpy(), positions)
    scaled_points, rows = drawn.drawn_rows()
    points = scaled_points * cloud.unit
    if not points.isfinite().all():
        return _empty_projection(cloud, OUT_OF_RANGE)
    names, labels = names_of(rows), labels_by_frequency(cloud, rows)
    return {
        "n": cloud.n,
        **{axis: [float(f"{value:.5g}") for value in points[:, i].tolist()] for i, axis in enumerate("xyz")},
        "rows": rows.tolist(),
        "shares": axes.shares,
        "names": names and [name[:NAME_CHARACTERS] for name in names],
        "labels": labels and {"names": labels.names, "codes": labels.codes.tolist()},
        "density": density and density.to_dict(cloud.unit),
        "reason": None,
    }


def _empty_projection(cloud: Cloud, reason: str) -> dict[str, Any]:
    return {
        "n": cloud.n, "x": [], "y": [], "z": [], "rows": [], "shares": [None] * COMPONENTS, "names": None,
        "labels": None, "density": None, "reason": reason,
    }  # fmt: skip


class _Axes:
    """Leading principal directions of a cloud that varies along at least one."""

    def __init__(self, cloud: Cloud) -> None:
        d = cloud.d
        S = cloud.moments.covariance().numpy()
        # Compute only the leading eigenvectors, in place; LAPACK reads the transpose without a copy.
        _, vectors = eigh(S.T, subset_by_index=(max(d - COMPONENTS, 0), d - 1), overwrite_a=True, check_finite=False)
        axes = torch.from_numpy(vectors.copy()).flip(1)
        shares = [share.value or 0.0 for share in anisotropy(cloud.eigenvalues, min(d, COMPONENTS))]
        self.shares = [*shares, *[0.0] * (COMPONENTS - len(shares))]  # Of the variance, along each axis
        self._mean = cloud.moments.mean
        self._axes = torch.zeros(d, COMPONENTS, dtype=torch.float64)
        for i, axis in enumerate(axes.T):
            if self.shares[i] > 0:
                self._axes[:, i] = axis * axis[axis.abs().argmax()].sign()

    def coordinates(self, x: Tensor) -> NDArray[np.float64]:
        """Return coordinates [n, 3] of points [n, d] relative to the mean."""
        chunks = [(x[start : start + CHUNK_ROWS] - self._mean) @ self._axes for start in range(0, len(x), CHUNK_ROWS)]
        return torch.cat(chunks).numpy() if chunks else np.empty((0, COMPONENTS))


class _Density:
    """Counts of points on a grid that covers a sample [n, 2] except its tails."""

    def __init__(self, sample: NDArray[np.float64]) -> None:
        self._edges = []
        for values in (sample[:, 1], sample[:, 0]):
            low, high = np.quantile(values, (TAIL, 1 - TAIL))
            margin = (high - low) / 10 or 4 * values.std() or 1.0
            self._edges.append(np.linspace(low - margin, high + margin, BINS + 1))
        self._counts = np.zeros((BINS, BINS), np.int64)
        self._n = 0

    def update(self, xy: NDArray[np.float64]) -> None:
        counts, _, _ = np.histogram2d(xy[:, 1], xy[:, 0], bins=self._edges)
        self._counts += counts.astype(np.int64)
        self._n += len(xy)

    def to_dict(self, unit: float) -> dict[str, Any]:
        """Return edges in the file's units, counts, and the number of points outside."""
        y_edges, x_edges = ((edges * unit).tolist() for edges in self._edges)
        outside = self._n - int(self._counts.sum())
        return {"x_edges": x_edges, "y_edges": y_edges, "counts": self._counts.tolist(), "outside": outside}


def labels_by_frequency(cloud: Cloud, rows: Tensor) -> RowLabels | None:
    """Return the labels of the rows at positions [m], with class names by descending count; None without labels.

    Rows without a label, and those of classes beyond the first ``MAX_NAMES``, share an empty name, which comes last.
    """
    if (labels := cloud.all_labels) is None:
        return None
    codes = labels.codes[rows]
    counts = torch.bincount(codes, minlength=len(labels.names))
    codes_by_count = counts.argsort(descending=True, stable=True)[: int((counts > 0).sum())].tolist()
    named_codes = [code for code in codes_by_count if labels.names[code]][:MAX_NAMES]
    new_codes = torch.full_like(counts, len(named_codes))
    new_codes[named_codes] = torch.arange(len(named_codes))
    names = [labels.names[code] for code in named_codes]
    return RowLabels(new_codes[codes], names if len(named_codes) == len(codes_by_count) else [*names, ""])
