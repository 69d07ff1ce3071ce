"""Neighbor layouts: t-SNE of points in the plane, and how many nearest neighbors a picture keeps."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.catalog import Similarity
from isotropy.cosine import unit_rows
from isotropy.neighbors import nearest_neighbors
from isotropy.pairs import choose_search

ITERATIONS = 500
START_SPREAD = 1e-4  # Standard deviation of the start along its first axis, as in openTSNE and scikit-learn


def nearest_by_similarity(x: Tensor, k: int, similarity: Similarity) -> tuple[Tensor, Tensor]:
    """Return the k rows nearest to each of points [n, d], int64 [n, k], and their relative squared distances [n, k].

    The first of a row's squared distances is subtracted from all of them. By cosine, rows must not be zero. By dot
    product, distances are those of rows of equal norm.
    """
    points = unit_rows(x.double()) if similarity is Similarity.COSINE else x.double() / x.abs().max().clamp(min=1e-300)
    nearest = choose_search(similarity, points.dtype)(points, k)
    # By dot product, a distance is the shortfall of the product: half a squared distance, up to a constant of the row.
    squares = 2 * nearest.distances if similarity is Similarity.DOT else nearest.distances.square()
    return nearest.indices, squares - squares[:, :1]


def lay_out(indices: Tensor, squared_distances: Tensor, start: NDArray[Any]) -> NDArray[np.float32]:
    """Return a t-SNE of points in the plane, [n, 2], given their nearest neighbors: see ``nearest_by_similarity``.

    ``start`` [n, 2] are the points along their first two principal components. The same arguments give the same layout.
    """
    # Imported here, because scikit-learn takes a second.
    from scipy.sparse import csr_matrix  # noqa: PLC0415
    from sklearn.manifold import TSNE  # noqa: PLC0415
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    n, k = indices.shape
    # scikit-learn expects each point as its own nearest neighbor.
    columns = np.column_stack([np.arange(n), indices.numpy()])
    distances = np.column_stack([np.zeros(n), squared_distances.clamp(min=0).sqrt().numpy()])
    graph = csr_matrix((distances.ravel(), columns.ravel(), np.arange(n + 1) * (k + 1)), (n, n))
    scaled_start = (start / max(float(start[:, 0].std()), 1e-300) * START_SPREAD).astype(np.float32)
    tsne = TSNE(perplexity=(k - 1) / 3, metric="precomputed", init=scaled_start, max_iter=ITERATIONS)
    # Sums of several threads depend on their number, and on shared processors they mostly wait for each other.
    with threadpool_limits(1):
        layout: NDArray[np.float32] = tsne.fit_transform(graph)
    return layout


def count_neighbors_kept(indices: Tensor, picture: NDArray[Any]) -> float:
    """Return the mean number of a point's k nearest neighbors, [n, k], that a picture [n, 2] has among its own k."""
    picture_indices = nearest_neighbors(torch.from_numpy(picture).double(), indices.shape[1]).indices
    return float((indices[:, :, None] == picture_indices[:, None]).sum((1, 2)).double().mean())
