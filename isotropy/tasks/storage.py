"""Storage formats of vectors: their size in bytes, and the decoded vectors that a search compares."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotropy.catalog import Similarity
from isotropy.tasks.search import Floats, Indices, nearest, nearest_codes, search_candidates

RESCORED_CANDIDATES = 40  # Candidates of a binary search that are compared again in float32
PQ_CENTROIDS = 256
# Iterations of k-means. faiss's default of 25 lowers the squared error by 1.5% and takes 2.2 times as long.
PQ_ITERATIONS = 10
PQ_DIMENSIONS = range(4, 9)  # Dimensions that may share a byte; the smallest that divides d is used
RABITQ_FACTOR_BYTES = 8  # Two float32 numbers that follow the bits: a distance and a factor


class VectorStorage(StrEnum):
    """Storage format of vectors."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    INT8 = "int8"
    INT4 = "int4"
    RABITQ = "rabitq"
    PQ = "pq"
    BINARY = "binary"
    RESCORED = "binary_rescored"

    @property
    def label(self) -> str:
        labels = {
            VectorStorage.RABITQ: "RaBitQ",
            VectorStorage.PQ: "PQ",
            VectorStorage.RESCORED: f"binary, {RESCORED_CANDIDATES} rescored",
        }
        return labels.get(self, self.value)

    @property
    def is_binary(self) -> bool:
        return self in (VectorStorage.BINARY, VectorStorage.RESCORED)


def pq_bytes(d: int) -> int | None:
    """Return the bytes per vector of a product quantizer; None if no number of 4 to 8 dimensions per byte divides d."""
    return next((d // dimensions for dimensions in PQ_DIMENSIONS if d % dimensions == 0), None)


def bytes_of(storage: VectorStorage, d: int) -> int:
    """Return the bytes per vector of d dimensions that a search keeps in memory, without vectors for rescoring."""
    if storage is VectorStorage.PQ:
        return pq_bytes(d) or 4 * d
    bits_by_storage = {
        VectorStorage.FLOAT32: 32,
        VectorStorage.FLOAT16: 16,
        VectorStorage.INT8: 8,
        VectorStorage.INT4: 4,
    }
    factor_bytes = RABITQ_FACTOR_BYTES if storage is VectorStorage.RABITQ else 0
    return -(-bits_by_storage.get(storage, 1) * d // 8) + factor_bytes


class _RabitqRows(NamedTuple):
    """Rows decoded from RaBitQ, and the terms of its estimate of distances."""

    rows: Floats  # [n, d]
    center: Floats  # [d]
    offsets: Floats  # [n, 1], added to the inner products of centered rows and queries


@dataclass(frozen=True, eq=False)
class StoredSpace:
    """Stored rows of one variant, searched by float32 queries."""

    rows: Floats  # [n, d], from `prepare`, before storage
    storage: VectorStorage
    similarity: Similarity
    seed: int = 0

    @cached_property
    def decoded_rows(self) -> Floats:
        """Rows [n, d] as decoded from storage; for binary storage, 1 and -1 by the bits of the rotated rows."""
        if self.storage is VectorStorage.FLOAT32:
            return self.rows
        if self.storage is VectorStorage.FLOAT16:
            largest = np.finfo(np.float16).max
            return self.rows.clip(-largest, largest).astype(np.float16).astype(np.float32)
        if self.storage.is_binary:
            bits = np.unpackbits(self._encode_bits(self.rows), axis=1, count=self.rows.shape[1], bitorder="little")
            return np.where(bits, np.float32(1), np.float32(-1))
        import faiss  # noqa: PLC0415 - only in the extra "decide"

        if self.storage is VectorStorage.RABITQ:
            return self._rabitq.rows
        d, scalar = self.rows.shape[1], faiss.ScalarQuantizer
        if self.storage in (VectorStorage.INT8, VectorStorage.INT4):
            codec: Any = scalar(d, scalar.QT_8bit if self.storage is VectorStorage.INT8 else scalar.QT_4bit)
        else:
            codec = faiss.ProductQuantizer(d, pq_bytes(d) or d, 8)
            codec.cp.seed, codec.cp.min_points_per_centroid, codec.cp.niter = self.seed + 1, 1, PQ_ITERATIONS
        codec.train(self.rows)
        decoded: Floats = codec.decode(codec.compute_codes(self.rows))
        return decoded

    @cached_property
    def _bit_rotation(self) -> tuple[Any, Floats]:
        """The faiss index that encodes randomly rotated vectors as bits, with a fixed seed; and the rows' mean [d]."""
        import faiss  # noqa: PLC0415

        return faiss.index_factory(self.rows.shape[1], "LSHr"), self.rows.mean(0, dtype=np.float64).astype(np.float32)

    def _encode_bits(self, x: Floats) -> NDArray[np.uint8]:
        """Return the bits of vectors [m, d] about the mean of the rows, after a random rotation."""
        index, mean = self._bit_rotation
        codes: NDArray[np.uint8] = index.sa_encode(x - mean)
        return codes

    @cached_property
    def _rabitq(self) -> _RabitqRows:
        """Rows as decoded from faiss's index "RR,RaBitQ", which rotates them before it takes bits about the mean."""
        import faiss  # noqa: PLC0415

        metric = faiss.METRIC_L2 if self.similarity is Similarity.EUCLIDEAN else faiss.METRIC_INNER_PRODUCT
        index: Any = faiss.index_factory(self.rows.shape[1], "RR,RaBitQ", metric)
        index.train(self.rows)
        codes = index.sa_encode(self.rows)
        factors: Floats = np.ascontiguousarray(codes[:, -RABITQ_FACTOR_BYTES:]).view(np.float32)
        rabitq: Any = faiss.downcast_index(index.index)
        rotation: Any = faiss.downcast_VectorTransform(index.chain.at(0))
        center = faiss.vector_to_array(rabitq.center)[None]
        offsets: Floats = factors[:, :1] * np.float32(-0.5)
        return _RabitqRows(index.sa_decode(codes), rotation.reverse_transform(center)[0], offsets)

    def nearest(self, queries: Floats, k: int, tie_ranks: Indices, allowed_rows: Indices | None = None) -> Indices:
        """Return the rows nearest to queries [m, d], best first, int64 [m, k], among ``allowed_rows`` if given."""
        rows = slice(None) if allowed_rows is None else allowed_rows  # a slice copies nothing
        allowed_tie_ranks = tie_ranks[rows]
        if self.storage.is_binary:
            n_candidates = max(k, RESCORED_CANDIDATES) if self.storage is VectorStorage.RESCORED else k
            query_bits, row_bits = (self._encode_bits(x) for x in (queries, self.rows[rows]))
            neighbors = nearest_codes(query_bits, row_bits, n_candidates, allowed_tie_ranks)
        elif self.storage is VectorStorage.RABITQ:
            decoded, center, offsets = self._rabitq
            # The offset of a row, as one more dimension, makes faiss's estimate an inner product.
            shifted = np.hstack([decoded[rows] - center, offsets[rows]])
            extended_queries = np.hstack([queries - center, np.ones((len(queries), 1), np.float32)])
            neighbors = nearest(extended_queries, shifted, k, Similarity.DOT, allowed_tie_ranks)
        else:
            neighbors = nearest(queries, self.decoded_rows[rows], k, self.similarity, allowed_tie_ranks)
        if allowed_rows is not None:
            neighbors = allowed_rows[neighbors]
        if self.storage is not VectorStorage.RESCORED:
            return neighbors
        return search_candidates(neighbors, queries, self.rows, k, self.similarity, tie_ranks)

    def similarities(self, pairs: Indices) -> NDArray[np.float64]:
        """Return the similarity of stored rows in pairs [m, 2], float64 [m]; negative squares for distance and bits."""
        first, second = (self.decoded_rows[pairs[:, side]].astype(np.float64) for side in (0, 1))
        if self.similarity is Similarity.EUCLIDEAN or self.storage.is_binary:
            return np.asarray(-np.square(first - second).sum(1))
        products: NDArray[np.float64] = np.einsum("md,md->m", first, second)
        if self.similarity is Similarity.COSINE:
            lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
            np.divide(products, lengths, out=products, where=lengths > 0)
        return products
