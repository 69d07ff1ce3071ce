"""Bridges: affine maps from the vectors of a new model into the space of an old one."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.catalog import Similarity
from isotropy.tasks.bootstrap import Numbers
from isotropy.tasks.maps import LINEAR_CODE, LOADING_CODE, NORMALIZE_CODE, RETURN_CODE
from isotropy.tasks.search import Floats, prepare

# Penalties of ridge regression, in multiples of the mean variance of the new dimensions.
PENALTIES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
ROWS_AT_ONCE = 8192  # Rows that are held in float64 at once
OFFSET_CODE = """\
    y = y + t["offset"]
"""


@dataclass(frozen=True, eq=False)
class Bridge:
    """A map (y - mean) @ matrix + offset of new vectors y [n, e], prepared for the similarity."""

    penalty: float | None  # Of ridge regression; None for orthogonal Procrustes
    similarity: Similarity
    mean: Numbers  # [e]
    matrix: Numbers  # [e, d]
    offset: Numbers  # [d]

    @property
    def name(self) -> str:
        return "orthogonal Procrustes" if self.penalty is None else f"ridge regression, penalty {self.penalty:g}"

    def apply(self, y: NDArray[Any]) -> Floats:
        """Return new vectors [n, e] in the space of the old ones, prepared for search, float32 [n, d]."""
        return prepare((prepare(y, self.similarity) - self.mean) @ self.matrix + self.offset, self.similarity)

    def tensors(self) -> dict[str, Tensor]:
        arrays = {"mean": self.mean, "matrix": self.matrix, "offset": self.offset}
        return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}

    def metadata(self) -> dict[str, str]:
        return {"bridge": self.name, "similarity": self.similarity.value}

    def numpy_code(self, file: str) -> str:
        normalize_code = NORMALIZE_CODE if self.similarity is Similarity.COSINE else ""
        return (
            LOADING_CODE.format(file=file)
            + normalize_code.format(name="x")
            + LINEAR_CODE
            + OFFSET_CODE
            + normalize_code.format(name="y")
            + RETURN_CODE
        )


def fit_bridges(new: Floats, old: Floats, similarity: Similarity) -> Iterator[Bridge]:
    """Yield bridges fitted on prepared vectors of the same texts, new [n, e] and old [n, d].

    The first is the orthogonal map without an offset (Schönemann 1966), as if the smaller side were padded with zeros.
    The others are ridge regressions with an unpenalized offset, by ascending penalty.
    """
    (n, e), d = new.shape, old.shape[1]
    no_mean, no_offset = np.zeros(e), np.zeros(d)
    new_axes, _, old_axes = np.linalg.svd(_cross_product(new, old, no_mean, no_offset), full_matrices=False)
    yield Bridge(None, similarity, no_mean, new_axes @ old_axes, no_offset)
    mean, offset = (x.mean(0, dtype=np.float64) for x in (new, old))
    variances, directions = np.linalg.eigh(_cross_product(new, new, mean, mean) / n)
    target = directions.T @ _cross_product(new, old, mean, offset) / n
    for penalty in PENALTIES:
        matrix = directions @ (target / (variances.clip(0) + penalty * variances.mean())[:, None])
        yield Bridge(penalty, similarity, mean, matrix, offset)


def _cross_product(x: Floats, y: Floats, x_center: Numbers, y_center: Numbers) -> Numbers:
    """Return (x - x_center)^T (y - y_center), float64 [d, e], of points [n, d] and [n, e]."""
    product = np.zeros((x.shape[1], y.shape[1]))
    for start in range(0, len(x), ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        product += (x[block] - x_center).T @ (y[block] - y_center)
    return product
