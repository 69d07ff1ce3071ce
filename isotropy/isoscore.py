"""IsoScore and IsoScore*: how evenly the variance of a cloud is spread over the dimensions, from 0 to 1.

Algorithm 1 of Rudman et al. (2022) cancels to IsoScore = (PR - 1) / (d - 1) with the participation ratio PR = tr(S)^2 /
tr(S S) of the covariance S, without eigenvalues. It depends on neither the mean of the points nor their scale.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from isotropy.evenness import evenness
from isotropy.points import require_points
from isotropy.score import Score, there_are
from isotropy.spectrum import SAFE_NORM, Moments, center, require_zeta


def isoscore(x: Tensor) -> Score:
    """Return IsoScore of points [n, d], in [0, 1]: 1 is isotropic, 0 is a line (Rudman et al. 2022).

    Biased low unless n is much greater than d. Undefined for fewer than two points or dimensions, equal points, and NaN
    or infinity.
    """
    require_points(x)
    n, d = x.shape
    if n < 2:
        return Score.undefined(f"IsoScore needs at least 2 points; {there_are(n)}.")
    if n < d:
        # The Gram matrix [n, n] has the eigenvalues of the covariance, up to a factor and zeros.
        _, centered = center(x.detach().cpu().double())
        return isoscore_from_gram(centered @ centered.T, d)
    moments = Moments(d)
    moments.update(x)
    return isoscore_from_covariance(moments.covariance())


def isoscore_from_covariance(S: Tensor) -> Score:
    """Return IsoScore of a covariance [d, d], in [0, 1]; of ``shrink(S_X, S_S, zeta)`` it is IsoScore*.

    Undefined for d = 1 and where ``participation_ratio`` is. Raises ValueError for a matrix that is not square.
    """
    return isoscore_from_ratio(participation_ratio(S), len(S))


def isoscore_from_ratio(ratio: Score, d: int) -> Score:
    """Return IsoScore from the participation ratio in d dimensions; undefined where the ratio is, and for d = 1."""
    if d < 2:
        return Score.undefined(f"IsoScore needs at least 2 dimensions; {there_are(d)}.")
    return ratio if ratio.value is None else Score.clipped((ratio.value - 1) / (d - 1), 0, 1)


def shrink_ratio(ratio: Score, d: int, zeta: float) -> Score:
    """Return the participation ratio after shrinking toward the scaled identity, from the ratio before."""
    weight = (1 - zeta) ** 2
    return ratio if ratio.value is None else Score.clipped(1 / (weight / ratio.value + (1 - weight) / d), 1, d)


def isoscore_from_gram(gram: Tensor, d: int) -> Score:
    """Return IsoScore of points of d dimensions from their centered Gram matrix [n, n], in n^2 d operations for n < d.

    Undefined where ``isoscore_from_covariance`` is. Raises ValueError for a matrix that is not square.
    """
    return isoscore_from_ratio(participation_ratio(gram), d)


def participation_ratio(S: Tensor) -> Score:
    """Return tr(S)^2 / tr(S S) of a covariance [d, d], in [1, d]: dimensions in use (Gao et al. 2017).

    Undefined for zero, nonfinite or impossible covariances. Raises ValueError for a matrix that is not square.
    """
    _require_square(S)
    S = S.detach().cpu().double()
    norm = float(torch.linalg.matrix_norm(S))
    if not 1 / SAFE_NORM < norm < SAFE_NORM:  # squares may have left the range of float64
        if not S.isfinite().all():
            return Score.undefined("The covariance is not finite: some points are NaN, infinite or too large.")
        if not S.any():
            return Score.undefined("The covariance is zero: all points are equal, or there are fewer than two.")
        S = S / S.abs().max()
        norm = float(torch.linalg.matrix_norm(S))
    trace = float(S.trace())
    # The sum of nonnegative eigenvalues is at least the root of the sum of their squares.
    if trace < norm * (1 - 1e-6):
        return Score.undefined("The matrix is not a covariance: it has a negative eigenvalue.")
    return Score.clipped((trace / norm) ** 2, 1, len(S))


def isoscore_star(points: Tensor, zeta: float, shrinkage_covariance: Tensor | None = None) -> Tensor:
    """Return IsoScore* of points [n, d], 0-d in [0, 1], differentiable once (Rudman & Eickhoff 2024).

    ``zeta`` in [0, 1] shrinks toward ``shrinkage_covariance`` [d, d]; with zeta = 0 it is IsoScore. The result is at
    least float32. Points without spread have value and gradient 0. The gradient is proportional to 1 - zeta. Raises
    ValueError for zeta outside [0, 1], a missing or misshapen shrinkage covariance, and where ``evenness`` does.
    """
    require_zeta(zeta)
    if zeta > 0 and shrinkage_covariance is None:
        d = points.shape[1]
        raise ValueError(
            f"Expected a shrinkage covariance [{d}, {d}] for zeta = {zeta}, got none: "
            "estimate one from many more points than these, or set zeta = 0."
        )
    score, _ = evenness(points, zeta=zeta, target=shrinkage_covariance)
    return score


@dataclass(frozen=True)
class ShrinkageCurve:
    """IsoScore* as a function of zeta, from the traces and inner products (``xx`` to ``ss``) of covariances X and S."""

    d: int
    trace_x: float
    trace_s: float
    xx: float
    xs: float
    ss: float

    @classmethod
    def from_covariances(cls, S_X: Tensor, S_S: Tensor) -> "ShrinkageCurve":
        """Return the curve of two covariances [d, d], d at least 2; raise ValueError for other or unequal shapes."""
        _require_square(S_X)
        if S_X.shape != S_S.shape or len(S_X) < 2:
            raise ValueError(
                f"Expected two covariances of one shape, at least [2, 2], got {list(S_X.shape)} and "
                f"{list(S_S.shape)}: estimate both from points of the same model."
            )
        X, S = S_X.detach().cpu().double(), S_S.detach().cpu().double()
        unit = torch.maximum(X.trace(), S.trace())
        X, S = X / unit, S / unit
        sums = (X.trace(), S.trace(), (X * X).sum(), (X * S).sum(), (S * S).sum())
        return cls(len(X), *map(float, sums))

    def isoscore_star(self, zetas: Tensor) -> Tensor:
        """Return IsoScore* at each of ``zetas``, float64 of their shape, in [0, 1]; NaN where undefined.

        Raises ValueError for a zeta outside [0, 1].
        """
        z = zetas.double()
        for end in (z.min(), z.max()):
            require_zeta(float(end))
        trace = (1 - z) * self.trace_x + z * self.trace_s
        squares = (1 - z) ** 2 * self.xx + 2 * z * (1 - z) * self.xs + z**2 * self.ss
        return ((trace**2 / squares - 1) / (self.d - 1)).clamp(0, 1)


def _require_square(S: Tensor) -> None:
    if S.ndim != 2 or S.shape[0] != S.shape[1]:
        raise ValueError(f"Expected a covariance [d, d], got {list(S.shape)}: for points use isoscore() or Moments.")
