"""Isotropy of growing samples of a cloud: how many rows a score takes to become stable.

It follows figure 4 of the poster of I-STAR (Rudman & Eickhoff 2024) and adds bias-corrected IsoScore. IsoScore* is
shrunk toward the covariance of all rows. A draw is a run of consecutive rows of the random sample. Draws of one size
share no row, and a draw of 2 m rows joins two of m. The largest size has one draw, hence no spread.
"""

from collections.abc import Iterable, Sequence
from math import isfinite
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from isotropy.cloud import Cloud
from isotropy.isoscore import ShrinkageCurve, isoscore_from_covariance, isoscore_from_gram
from isotropy.spectrum import center
from isotropy.unbiased import FourthMoments, isoscore_unbiased, isoscore_unbiased_from_moments

FIRST_ROWS = 8  # Rows of the smallest draws; sizes double up to that of the sample
# Draws of one size if there are enough rows; even, because draws are halved. Their standard deviation is itself
# uncertain by a quarter.
DRAWS = 10
# Maximum of sampled rows times d^2. It allows 32,768 rows up to d = 1024, and at least d rows up to d = 3250.
MAX_WORK = 2**35
# Maximum of rows times d^2 for all draws of one size below d together. It allows 256 rows at d = 4096.
MAX_WORK_BY_PRODUCTS = 2**32
ZETAS = (0.2, 0.4, 0.6, 0.8)

# Scores of one draw: IsoScore, its bias-corrected form, then IsoScore* at each zeta.
DrawScores = tuple[float | None, ...]


def sample_size(cloud: Cloud) -> dict[str, Any]:
    """Return the scores of 8, 16, 32, ... and all rows, as mean and standard deviation over draws.

    The dictionary has ``n``, ``draws`` (maximum of one size), ``rows`` [m], ``drawn`` [m], ``full`` (scores of all
    rows), ``zetas``, the curves ``isoscore``, ``isoscore_unbiased`` and ``isoscore_star`` (one per zeta), each
    ``{"mean", "sd"}`` with None where undefined, and ``reason`` (why there are no sizes).
    """
    plain_score, unbiased_score = (cloud.moment_scores[slug] for slug in ("isoscore", "isoscore_unbiased"))
    draws: dict[int, list[DrawScores]] = {}
    if plain_score.value is not None:
        draws = _Draws(cloud).scores()
        # All rows are one draw and also the target, so shrinkage changes nothing.
        draws[cloud.n] = [(plain_score.value, unbiased_score.value, *[plain_score.value] * len(ZETAS))]
    draw_counts = [len(draws_of_size) for draws_of_size in draws.values()]
    plain, corrected, *stars = (_make_curve(draws.values(), i) for i in range(2 + len(ZETAS)))
    return {
        "n": cloud.n,
        "draws": max(draw_counts, default=0),
        "rows": list(draws),
        "drawn": draw_counts,
        "full": {"isoscore": plain_score.value, "isoscore_unbiased": unbiased_score.value},
        "zetas": list(ZETAS),
        "isoscore": plain,
        "isoscore_unbiased": corrected,
        "isoscore_star": stars,
        "reason": plain_score.reason,
    }


def _make_curve(draws_by_size: Iterable[list[DrawScores]], i: int) -> dict[str, list[float | None]]:
    """Return mean and standard deviation of the i-th score over the draws of each size."""
    means: list[float | None] = []
    deviations: list[float | None] = []
    for draws in draws_by_size:
        values = [score for scores in draws if (score := scores[i]) is not None]
        if len(values) < len(draws):  # averaging only the draws with a value would be biased
            values = []
        means.append(fmean(values) if values else None)
        deviations.append(stdev(values) if len(values) > 1 else None)
    return {"mean": means, "sd": deviations}


class _Draws:
    """Draws of increasing size from a cloud whose covariance is not zero."""

    def __init__(self, cloud: Cloud) -> None:
        n, d = min(len(cloud.sample), MAX_WORK // cloud.d**2), cloud.d
        self._n_by_products = min(n, MAX_WORK_BY_PRODUCTS // d**2)
        self._rows = cloud.sample[:n]
        sizes = [m for m in (FIRST_ROWS * 2**power for power in range(n.bit_length())) if m <= n and m < cloud.n]
        # Draws of m < d rows use products of rows, m^2 d operations; others moments, m d^2, merged from halves.
        self._sizes_by_products = [m for m in sizes if m < d and m <= self._n_by_products]
        self._sizes_by_moments = [m for m in sizes if m >= d]
        S = cloud.moments.covariance()
        self._unit = S.trace()
        self._target = S.div_(self._unit)
        self._target_squares = float(self._target.square().sum())

    def scores(self) -> dict[int, list[DrawScores]]:
        """Return the scores of all draws, by the number of rows of a draw."""
        draws: dict[int, list[DrawScores]] = {m: [] for m in (*self._sizes_by_products, *self._sizes_by_moments)}
        for m in self._sizes_by_products:
            for k in range(min(DRAWS, self._n_by_products // m)):
                x = self._rows[k * m : (k + 1) * m]
                _, y = center(x.double())
                y = y / (self._unit * (m - 1)).sqrt()
                gram = y @ y.T
                stars = self._isoscore_stars(gram.trace(), gram.square().sum(), (y @ self._target).mul_(y).sum())
                plain = isoscore_from_gram(gram, x.shape[1]).value
                draws[m].append((plain, isoscore_unbiased(x).value, *stars))
        if self._sizes_by_moments:
            for k in range(len(self._rows) // self._sizes_by_moments[-1]):
                self._record_draw(self._sizes_by_moments, k, draws)
        return draws

    def _record_draw(self, sizes: Sequence[int], k: int, draws: dict[int, list[DrawScores]]) -> FourthMoments:
        """Return the moments of draw ``k`` of the largest size, and record its scores and those of its halves."""
        moments = FourthMoments(self._rows.shape[1])
        if len(sizes) == 1 or 2 * k >= DRAWS:
            moments.update(self._rows[k * sizes[-1] : (k + 1) * sizes[-1]])
        else:
            for half in (2 * k, 2 * k + 1):
                moments.merge(self._record_draw(sizes[:-1], half, draws))
        S = moments.covariance().div_(self._unit)
        stars = self._isoscore_stars(S.trace(), S.square().sum(), (S * self._target).sum())
        draws[sizes[-1]].append(
            (isoscore_from_covariance(S).value, isoscore_unbiased_from_moments(moments).value, *stars)
        )
        return moments

    def _isoscore_stars(self, trace: Tensor, squares: Tensor, product: Tensor) -> DrawScores:
        """Return IsoScore* of a draw from inner products of its covariance, in units of the target's trace."""
        xx, xs, ss = float(squares), float(product), self._target_squares
        curve = ShrinkageCurve(len(self._target), trace_x=float(trace), trace_s=1.0, xx=xx, xs=xs, ss=ss)
        values = curve.isoscore_star(torch.tensor(ZETAS, dtype=torch.float64))
        return tuple(value if isfinite(value) else None for value in values.tolist())
