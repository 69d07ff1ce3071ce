"""Post-processing measured on held-out rows: on the rows it was fitted on, whitening always has IsoScore 1."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from isotropy.points import require_points
from isotropy.postprocess.fitted import FittedMap


@dataclass(frozen=True, eq=False)
class Pair:
    """The same rows [m, d] before and after post-processing."""

    before: Tensor
    after: Tensor


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A map fitted on one part of the rows, and both parts before and after it."""

    fitted: FittedMap
    fit_rows: Tensor  # [k] int64, ascending: rows that the map was fitted on
    held_out_rows: Tensor  # [n - k] int64, ascending: all other rows
    held_out: Pair  # The rows held out: report scores of these
    in_sample: Pair  # The rows fitted on: their scores are too good, so use them for comparison only


def held_out(
    points: Tensor,
    fit: Callable[[Tensor], FittedMap],
    fraction: float = 0.5,
    seed: int = 0,
    *,
    groups: Tensor | None = None,
) -> HeldOut:
    """Fit on one part of points [n, d] and apply to the other.

    ``fit`` takes points, such as ``fit_zca_whitening``. A ``fraction`` of the rows, or of ``groups`` [n], which stay
    together, is drawn by ``seed`` to fit on. Raises ValueError for fewer than two rows or groups and for arguments of
    another shape or range, and any error that ``fit`` raises.
    """
    require_points(points)
    is_fit = _draw_fit_mask(len(points), fraction, seed, groups).to(points.device)
    if not is_fit.any():
        raise ValueError(f"Expected rows to fit on, got none of {len(points)}: both parts need at least one.")
    fit_points, held_out_points = points[is_fit], points[~is_fit]
    fitted = fit(fit_points)
    return HeldOut(
        fitted,
        is_fit.nonzero().squeeze(1),
        (~is_fit).nonzero().squeeze(1),
        Pair(held_out_points, fitted.apply(held_out_points)),
        Pair(fit_points, fitted.apply(fit_points)),
    )


def _draw_fit_mask(n: int, fraction: float, seed: int, groups: Tensor | None) -> Tensor:
    if not 0 < fraction < 1:
        raise ValueError(
            f"Expected a fraction of rows between 0 and 1 to fit on, got {fraction}: both parts need some."
        )
    if groups is not None and groups.shape != (n,):
        raise ValueError(f"Expected a group for each of {n} rows, got {list(groups.shape)}.")
    group_of_row = torch.arange(n) if groups is None else torch.unique(groups.cpu(), return_inverse=True)[1]
    group_count = int(group_of_row.max()) + 1 if n > 0 else 0
    is_drawn = torch.zeros(group_count, dtype=torch.bool)
    shuffled = torch.randperm(group_count, generator=torch.Generator().manual_seed(seed))
    is_drawn[shuffled[: min(max(round(fraction * group_count), 1), group_count - 1)]] = True
    return is_drawn[group_of_row]
