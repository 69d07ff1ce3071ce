"""Nearest neighbors of sampled named rows before and after a method, and the job that finds rows nearest to a text."""

from collections.abc import Iterator, Sequence
from functools import partial
from math import isfinite
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from app.db.models import Lookup
from app.db.models.embeddings import lookup_key
from isoscope.core.errors import InvalidError
from isoscope.nearest import nearest_rows
from isoscope.rows import values_of
from isotropy.catalog import Similarity
from isotropy.points import at_least_float32
from isotropy.rows import finite_chunks
from workers.embeddings.encoder import encode_with_provenance
from workers.files import open_embedding
from workers.job_rows import ResultJob, run_result_job

K = 8  # Neighbors of a row
BLOCK_ROWS = 64
EXACT = "donot_use_mm_for_euclid_dist"  # Matrix products would lose the digits of small distances


def find_named_neighbors(
    names: Sequence[str],
    before: Tensor,
    after: Tensor,
    queries: Tensor,
    k: int = K,
    similarity: Similarity = Similarity.COSINE,
) -> list[dict[str, Any]]:
    """Return the k rows nearest to each query by a similarity, before and after a mapping.

    ``before`` [n, d] and ``after`` [n, e] are the same n named rows; ``queries`` are the indices of m of them, int64.
    Returns one ``{"name", "before": [{"name", "cosine"}], "after": [...]}`` per query, nearest first; the key
    "cosine" is the similarity's name. A row is not its own neighbor. By cosine, rows of zeros have and are none.
    """
    before_and_after = [_find_nearest(names, x, queries, k, similarity) for x in (before, after)]
    return [
        {"name": names[query], "before": nearest_before, "after": nearest_after}
        for query, nearest_before, nearest_after in zip(queries.tolist(), *before_and_after, strict=True)
    ]


def first_named_rows(names: Sequence[str], x: Tensor, order: Tensor, max_rows: int) -> Tensor:
    """Return the indices of the first ``max_rows`` nonzero rows with distinct, nonempty names, in ``order``, int64."""
    has_direction = x.any(dim=1)
    row_by_name: dict[str, int] = {}
    for row in order.tolist():
        if len(row_by_name) == max_rows:
            break
        if names[row] and has_direction[row]:
            row_by_name.setdefault(names[row], row)
    return torch.tensor(list(row_by_name.values()), dtype=torch.int64)


def _find_nearest(
    names: Sequence[str], x: Tensor, queries: Tensor, k: int, similarity: Similarity
) -> list[list[dict[str, Any]]]:
    """Return the names of the k rows nearest to each query, with their cosines, dot products or distances."""
    if similarity is Similarity.COSINE:
        # Divide by the largest entry first, so that no square overflows the dtype. Rows of zeros become NaN.
        x = at_least_float32(x)
        x = torch.nn.functional.normalize(x / x.abs().amax(dim=1, keepdim=True), dim=1)
    else:
        x = x.double()  # squares of float32 overflow
    sign = -1 if similarity is Similarity.EUCLIDEAN else 1  # so that the nearest rows have the highest scores
    neighbors = []
    for rows in torch.split(queries, BLOCK_ROWS):
        scores = -torch.cdist(x[rows], x, compute_mode=EXACT) if sign < 0 else x[rows] @ x.T
        scores[torch.arange(len(rows)), rows] = torch.nan  # a row is not its own neighbor
        nearest_scores, indices = scores.nan_to_num(-torch.inf, neginf=-torch.inf).topk(min(k, len(x)), dim=1)
        if similarity is Similarity.COSINE:
            nearest_scores = nearest_scores.clamp(max=1)
        for query_indices, query_scores in zip(indices.tolist(), nearest_scores.tolist(), strict=True):
            nearest = zip(query_indices, query_scores, strict=True)
            neighbors.append(
                [{"name": names[row], similarity.value: sign * score} for row, score in nearest if isfinite(score)]
            )
    return neighbors


def _look_up(job: ResultJob[Lookup]) -> None:
    job.require_current_vectors(is_current=job.row.key == lookup_key(job.embedding, job.row.name))
    matrix = open_embedding(job.embedding, job.settings)
    vector = encode_with_provenance(job.row.name, job.embedding.provenance or {}, job.settings).numpy()
    if len(vector) != matrix.d:
        raise InvalidError(f"The rows have {matrix.d:,} dimensions, the text {len(vector):,}. Encode the texts again.")
    if not vector.any():
        raise InvalidError("The text is encoded as all zeros, so it has no direction.")
    n_searched = 0

    def yield_blocks() -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
        nonlocal n_searched
        for rows, positions, _ in finite_chunks(matrix):
            n_searched += len(rows)
            yield rows.numpy(), positions

    similarity = matrix.selection.similarity
    nearest = nearest_rows(yield_blocks(), vector, K, similarity)
    rows = np.array([row.position for row in nearest], np.int64)
    names = values_of(matrix, matrix.selection.names, torch.from_numpy(rows)) or [""] * len(rows)
    neighbors = [
        {"name": name, similarity.value: row.nearness, "row": position}
        for row, name, position in zip(nearest, names, matrix.file_positions(rows).tolist(), strict=True)
    ]
    results = {
        "k": K,
        "similarity": similarity.value,
        "rows": n_searched,
        "row": None,
        "of": [{"name": job.row.name, "before": neighbors, "after": []}],
    }
    with job.sessions.begin() as session:
        job.fill(session, results=results)


look_up = partial(run_result_job, Lookup, _look_up)
