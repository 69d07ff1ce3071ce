"""The points of an embedding, read from its files once."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from app.db.models import Embedding
from app.errors import InvalidError
from app.formats.matrix import Matrix, open_matrix
from app.formats.selection import Selection
from app.settings import Settings
from isotropy.cosine import CosineMoments
from isotropy.spectrum import Moments
from workers.upload import uploaded

# A covariance of this many dimensions takes 2 GiB, and several are held at once.
MAX_DIMENSIONS = 16_384
# Those of the largest subset of the zeta curves.
SAMPLE_ROWS = 32_768


@dataclass(frozen=True)
class Cloud:
    """What one pass over the rows leaves: rows with NaN or infinity are counted and left out of all the rest."""

    moments: Moments
    cosines: CosineMoments
    sample: Tensor
    """[at most ``SAMPLE_ROWS``, d], drawn without replacement, in the order of drawing; all rows if they are few."""
    n_left_out: int

    @property
    def n(self) -> int:
        """Number of points."""
        return self.moments.n


def open_embedding(embedding: Embedding, settings: Settings) -> Matrix:
    """Open the matrix that was chosen of the embedding's files."""
    matrix = open_matrix(uploaded(embedding, settings), Selection.model_validate(embedding.selection))
    if matrix.d > MAX_DIMENSIONS:
        raise InvalidError(
            f"Expected at most {MAX_DIMENSIONS:,} columns, of which a covariance still fits into memory, got "
            f"{matrix.d:,}. If each column is a sample, swap rows and columns; else upload fewer dimensions."
        )
    return matrix


def read_cloud(matrix: Matrix, seed: int) -> Cloud:
    """Stream the rows once. The sample is drawn by ``seed``; a row of it that is left out is not replaced."""
    moments, cosines = Moments(matrix.d), CosineMoments(matrix.d)
    place = np.random.default_rng(seed).permutation(matrix.n)
    sampled, places = [], []
    n_left_out = start = 0
    for chunk in matrix.chunks():
        finite = np.isfinite(chunk).all(axis=1)
        points = torch.from_numpy(chunk[finite])
        moments.update(points)
        cosines.update(points)
        n_left_out += len(chunk) - len(points)
        chunk_places = torch.from_numpy(place[start : start + len(chunk)][finite])
        drawn = chunk_places < SAMPLE_ROWS
        sampled.append(points[drawn])
        places.append(chunk_places[drawn])
        start += len(chunk)
    sample = torch.cat(sampled)[torch.cat(places).argsort()]
    return Cloud(moments, cosines, sample, n_left_out)
