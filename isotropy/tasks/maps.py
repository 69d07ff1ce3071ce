"""The map of a variant: a fitted post-processing, then fewer dimensions. Stored as tensors with NumPy code."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.anisotropy import second_moment
from isotropy.catalog import Similarity
from isotropy.postprocess.components import Components, moments_of
from isotropy.postprocess.fitted import FittedMap
from isotropy.postprocess.flow import Flow
from isotropy.postprocess.methods import fit, restore
from isotropy.postprocess.removal import ClusterRemoval, Removal
from isotropy.postprocess.whitening import Scaling, Whitening
from isotropy.tasks.search import Floats, prepare
from isotropy.tasks.variants import AS_IT_IS, Dimensions, Variant

LOADING_CODE = """\
import numpy as np
from safetensors.numpy import load_file

t = load_file({file!r})


def apply(x):  # [n, d], as they were encoded
    x = x.astype(np.float64)
"""
LINEAR_CODE = """\
    y = (x - t["mean"]) @ t["matrix"]
"""
CLUSTER_CODE = """\
    nearest = np.array([((row - t["centroids"]) ** 2).sum(1).argmin() for row in x])
    y, U = x - t["mean"][nearest], t["directions"][nearest]
    y = y - np.einsum("nD,nDd->nd", np.einsum("nd,nDd->nD", y, U), U)
    y = y @ t["matrix"]
"""
FLOW_CODE = """\
    y = (x - t["mean"]) @ t["rotation"] * t["scale"]
    c = y.shape[1] // 2
    for k in range(len(t["shift"])):
        y = (y * np.exp(t["log_scale"][k]) + t["shift"][k])[:, t["permutations"][k]]
        hidden = np.maximum(y[:, :c] @ t["inner"][k].T + t["inner_bias"][k], 0)
        log_scale, shift = np.split(hidden @ t["outer"][k].T + t["outer_bias"][k], 2, axis=1)
        y[:, c:] = y[:, c:] * np.exp(np.tanh(log_scale)) + shift
    y = y @ t["matrix"]
"""
NORMALIZE_CODE = """\
    {name} = {name} / np.maximum(np.linalg.norm({name}, axis=1, keepdims=True), 1e-300)
"""
RETURN_CODE = """\
    return y.astype(np.float32)
"""


@dataclass(frozen=True, eq=False)
class Map:
    """The transformation from encoded vectors to those that a variant stores."""

    variant: Variant
    similarity: Similarity
    fitted: FittedMap | None  # None for vectors as they are
    matrix: Tensor  # [d, k] float64: projects transformed points onto the variant's dimensions

    def apply(self, x: NDArray[Any]) -> Floats:
        """Return vectors [n, d] transformed as they are stored and searched, float32 [n, k]."""
        return prepare(reduce_dimensions(apply_fitted(self.fitted, x), self.matrix), self.similarity)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors that ``numpy_code`` reads, for ``safetensors.torch.save_file``."""
        if isinstance(self.fitted, ClusterRemoval | Flow):
            return self.fitted.state() | {"matrix": self.matrix.contiguous()}
        d = len(self.matrix)
        linear = torch.eye(d, dtype=torch.float64)
        mean = linear.new_zeros(d) if self.fitted is None else self.fitted.mean
        match self.fitted:
            case Scaling():
                linear = self.fitted.scale.diag()
            case Removal():
                linear = linear - self.fitted.directions.T * self.fitted.weights @ self.fitted.directions
            case Whitening():
                linear = self.fitted.matrix
        return {"mean": mean.contiguous(), "matrix": (linear @ self.matrix).contiguous()}

    @classmethod
    def from_tensors(cls, variant: Variant, similarity: Similarity, tensors: dict[str, Tensor]) -> "Map":
        """Restore a map from its ``tensors()``; raise ValueError for those of another variant."""
        if "matrix" not in tensors:
            raise ValueError(f"Expected a tensor named matrix, got {sorted(tensors)}: give the tensors of a map.")
        state = {name: tensor for name, tensor in tensors.items() if name != "matrix"}
        if state.keys() == {"mean"}:
            fitted: FittedMap = Scaling(state["mean"], torch.ones_like(state["mean"]))
        else:
            fitted = restore(variant.method, state)
        return cls(variant, similarity, fitted, tensors["matrix"])

    def metadata(self) -> dict[str, str]:
        variant = self.variant
        return {
            "method": variant.method,
            "parameters": ", ".join(f"{name}={value!r}" for name, value in variant.parameters),
            "dimensions": str(variant.dimensions),
            "storage": variant.storage.value,
            "similarity": self.similarity.value,
        }

    def numpy_code(self, file: str) -> str:
        code_by_type: dict[type, str] = {Flow: FLOW_CODE, ClusterRemoval: CLUSTER_CODE}
        steps = code_by_type.get(type(self.fitted), LINEAR_CODE)
        normalization = NORMALIZE_CODE.format(name="y") if self.similarity is Similarity.COSINE else ""
        return LOADING_CODE.format(file=file) + steps + normalization + RETURN_CODE


def fit_variant(
    points: NDArray[Any], variant: Variant, seed: int, components: Callable[[], Components] | None = None
) -> FittedMap | None:
    """Return the post-processing of a variant, fitted on points [n, d]; None for vectors as they are.

    Raises ValueError if the method cannot be fitted on them.
    """
    if variant.method == AS_IT_IS:
        return None
    parameters: dict[str, Any] = dict(variant.parameters)
    if variant.method in ("cluster_based", "flow"):
        parameters["seed"] = seed
    return fit(variant.method, torch.from_numpy(points), components, **parameters)


def fit_map(
    points: NDArray[Any],
    variant: Variant,
    similarity: Similarity,
    seed: int,
    components: Callable[[], Components] | None = None,
) -> Map:
    fitted = fit_variant(points, variant, seed, components)
    return Map(variant, similarity, fitted, dimension_matrix(apply_fitted(fitted, points), variant.dimensions))


def apply_fitted(fitted: FittedMap | None, x: NDArray[Any]) -> NDArray[Any]:
    transformed: NDArray[Any] = x if fitted is None else fitted.apply(torch.from_numpy(x)).numpy()
    return transformed


def dimension_matrix(points: NDArray[Any], dimensions: Dimensions) -> Tensor:
    """Return the matrix [d, k] float64 that keeps some dimensions of points [n, d].

    Principal components are about the origin: post-processings center, and without one the mean is kept.
    """
    d = points.shape[1]
    identity = torch.eye(d, dtype=torch.float64)
    if dimensions.kind != "pca":
        return identity[:, : dimensions.size or d]
    moments = moments_of(torch.from_numpy(points))
    directions = torch.linalg.eigh(second_moment(moments))[1].flip(1)[:, : dimensions.size]
    largest = directions.abs().argmax(dim=0, keepdim=True)
    signed: Tensor = directions * directions.gather(0, largest).sign()
    return signed


def reduce_dimensions(points: NDArray[Any], matrix: Tensor) -> NDArray[Any]:
    """Project points [n, d] to [n, k] by a matrix of ``dimension_matrix``."""
    d, k = matrix.shape
    if torch.equal(matrix, torch.eye(d, dtype=matrix.dtype)[:, :k]):
        return points[:, :k]
    projected: NDArray[Any] = points @ matrix.numpy().astype(points.dtype)
    return projected
