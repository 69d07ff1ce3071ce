"""Cosine similarity over all pairs of a cloud: mean, contribution of each dimension, and histogram."""

from dataclasses import dataclass

import torch
from torch import Tensor

from isotropy.points import at_least_float32, require_points
from isotropy.score import Score, there_are

CHUNK_ROWS = 512  # Rows scaled and summed at once; they fit in the cache: 1.5 MB in float32 at d = 768
PAIR_ROWS = 256  # Rows whose cosines with all others are held at once: 256 x 2000 cosines take 2 MB


@dataclass(frozen=True)
class RogueDimensions:
    """Contribution of each dimension to the mean cosine similarity (Timkey & van Schijndel 2021)."""

    # The largest contribution of one dimension, a cosine in [-1 / (d (n - 1)), 1]. Not a share of the mean cosine,
    # which is unbounded if contributions of both signs cancel.
    score: Score
    # The mean of u_ai u_bi over pairs a != b of unit rows u, for each dimension i, float64 [d]. They add up to the mean
    # cosine. A dimension with mean zero may have a small negative contribution. Empty where undefined.
    contributions: Tensor


class CosineMoments:
    """Mean cosine over all pairs of a stream of d-dimensional points, in one pass; parts can be merged.

    Zero rows have no direction and are counted in ``zero_rows``. Keep ``device`` on the CPU if the accelerator has no
    float64.
    """

    def __init__(self, d: int, device: torch.device | str = "cpu") -> None:
        self.n = 0
        self.zero_rows = 0
        self._sum = torch.zeros(d, dtype=torch.float64, device=device)
        self._squares = torch.zeros_like(self._sum)

    def update(self, x: Tensor) -> None:
        require_points(x, len(self._sum))
        # A GPU starts few large operations faster than many small ones.
        for rows in torch.split(x.detach(), CHUNK_ROWS if x.device.type == "cpu" else max(len(x), 1)):
            unit_vectors = unit_rows(rows)
            zero_rows = len(unit_vectors) - int(unit_vectors.any(dim=1).sum())
            self._sum += unit_vectors.sum(0).to(self._sum)
            self._squares += unit_vectors.square_().sum(0).to(self._squares)
            self.n += len(unit_vectors) - zero_rows
            self.zero_rows += zero_rows

    def merge(self, moments: "CosineMoments") -> None:
        """Add the points of another instance; raise ValueError if its number of dimensions differs."""
        if len(moments._sum) != len(self._sum):
            d, other_d = len(self._sum), len(moments._sum)
            raise ValueError(f"Expected moments of {d} dimensions, got {other_d}: merge only clouds of one space.")
        self._sum += moments._sum.to(self._sum)
        self._squares += moments._squares.to(self._squares)
        self.n += moments.n
        self.zero_rows += moments.zero_rows

    def mean_cosine(self) -> Score:
        """Return the mean cosine over pairs i != j of unit rows u, (n ||mean u||^2 - 1) / (n - 1).

        In [-1 / (n - 1), 1]. Ethayarajh (2019) estimates it from random pairs. Undefined for fewer than two nonzero
        rows, and for NaN or infinity.
        """
        n = self.n
        if (reason := self._explain_undefined()) is not None:
            return Score.undefined(reason)
        squared_norm = float((self._sum / n).square().sum())
        return Score.clipped((n * squared_norm - 1) / (n - 1), -1 / (n - 1), 1)

    def rogue_dimensions(self) -> RogueDimensions:
        """Return each dimension's part of the mean cosine, ((sum u_i)^2 - sum u_i^2) / (n (n - 1))."""
        n = self.n
        if (reason := self._explain_undefined()) is not None:
            return RogueDimensions(Score.undefined(reason), self._sum[:0])
        contributions = (self._sum.square() - self._squares) / (n * (n - 1))
        lowest = -1 / (len(contributions) * (n - 1))
        return RogueDimensions(Score.clipped(float(contributions.max()), lowest, 1), contributions)

    def _explain_undefined(self) -> str | None:
        if self.n < 2:
            return f"The mean cosine needs at least 2 rows that are not zero; {there_are(self.n)}."
        if not self._sum.isfinite().all():
            return "The mean cosine is not finite: some points are NaN or infinite."
        return None


@dataclass(frozen=True)
class CosineCounts:
    """Histogram of the cosines of all pairs of rows."""

    edges: Tensor  # [bins + 1] float64, from -1 to 1; a bin includes its left edge, and the last one also 1
    counts: Tensor  # [bins] int64, pairs i < j


def cosine_histogram(x: Tensor, bins: int = 100) -> CosineCounts:
    """Return the histogram of cosines over all pairs of nonzero points [n, d].

    Raises ValueError if ``x`` is not a finite floating tensor [n, d].
    """
    require_points(x)
    unit_vectors = unit_rows(x.detach())
    if not unit_vectors.isfinite().all():
        raise ValueError("Expected finite points, got NaN or infinity: leave those rows out first.")
    counts = torch.zeros(bins, dtype=torch.int64)
    for start in range(0, len(unit_vectors), PAIR_ROWS):
        cosines = unit_vectors[start : start + PAIR_ROWS] @ unit_vectors[start:].T
        is_upper = torch.ones_like(cosines, dtype=torch.bool).triu(1)
        counts += torch.histc(cosines[is_upper].clamp(-1, 1), bins, -1, 1).cpu().long()
    return CosineCounts(torch.linspace(-1, 1, bins + 1, dtype=torch.float64), counts)


def unit_rows(x: Tensor) -> Tensor:
    """Return points [n, d] scaled to length 1, at least in float32, differentiable; zero rows stay zero."""
    x = at_least_float32(x)
    # Scale first, because squares may overflow float32. The scale is a constant to the gradient: the direction does not
    # depend on it.
    size = x.detach().abs().amax(dim=1, keepdim=True)
    is_zero = size == 0
    scaled = x / size.masked_fill(is_zero, 1)
    unit_vectors: Tensor = scaled / torch.linalg.vector_norm(scaled, dim=1, keepdim=True).masked_fill(is_zero, 1)
    return unit_vectors
