"""Dimensions that are not coordinates: ids, labels, counts, prices or times that came along with the vectors.

Their values have few decimals where other dimensions have any fraction, repeat, or follow the row order. What most
dimensions share is how all values were written, and is no finding.
"""

from __future__ import annotations

import torch
from torch import Tensor

from isotropy.findings.dimensions import count_dimensions, examine_without
from isotropy.findings.finding import Defect, Examined
from isotropy.rows import finite_chunks

MAX_SHARE = 0.25  # Share of the dimensions beyond which such numbers are how all values were written
LOOKED_AT = 1000  # Rows of the sample from which it is told how values are written
MOST_DECIMALS = 6  # Decimals of a number that counts as rounded
FRACTIONS = MOST_DECIMALS + 1  # Decimals of numbers with any fraction
BY_CHANCE = 10  # Digits that are 0 in all rows together, beyond those of other dimensions, from which this is no chance
# Share of the values, beside the most frequent, that occur again, from which a dimension has a few values only.
REPEATED = 0.8
SELDOM = 0.2  # Maximum of the same share in other dimensions; more indicates coarse numbers or copied rows
# Numbers that the precision has within a standard deviation at least, where a few values only are no rounding.
STEPS = 1e4
# Precisions that values may have had before they were written, coarsest first.
PRECISIONS = (torch.bfloat16, torch.float16, torch.float32)
LINEAR = 0.995  # Correlation with the number of the row from which a dimension counts the rows


def metadata_as_coordinates(examined: Examined) -> Defect | None:
    """Find dimensions with rounded or few values among continuous ones, and dimensions that count rows."""
    cloud = examined.cloud
    if not examined.is_spread or cloud.d < 3 or cloud.unit != 1:
        return None
    # Monotonic dimensions that are a straight line over the rows.
    at = cloud.rows.double()
    at = at - at.mean()
    x = cloud.sample.double()
    y = x - x.mean(0)
    counts_rows: Tensor = ((at @ y) / (y.square().sum(0).sqrt() * at.norm()).clamp(min=1e-300)).abs() > LINEAR
    if counts_rows.any():
        steps = x[cloud.rows.argsort()][:, counts_rows].diff(dim=0)
        counts_rows[counts_rows.clone()] = (steps >= 0).all(0) | (steps <= 0).all(0)
    is_metadata = _rounded(examined) | _of_few_values(examined) | counts_rows
    count = int(is_metadata.sum())
    if not 0 < count <= _max_dimensions(cloud.d):
        return None
    if (removal := examine_without(examined, is_metadata)) is None:
        return None
    remaining, effect, severity = removal
    return Defect(
        slug="metadata_as_coordinates",
        severity=severity,
        title=f"{count_dimensions(count)} {'looks' if count == 1 else 'look'} like metadata",
        evidence=(
            f"{'It holds' if count == 1 else 'They hold'} whole or rounded numbers, a few values only or the order of "
            f"the rows, unlike the other {cloud.d - count:,} dimensions."
        ),
        effect=effect,
        dimensions=examined.dimensions[is_metadata.numpy()],
        remaining=remaining,
    )


def _max_dimensions(d: int) -> int:
    return max(1, int(MAX_SHARE * d))


def _eps(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the relative rounding by dimension: that of the coarsest type in which most dimensions fit."""
    eps = torch.full((x.shape[1],), torch.finfo(dtype).eps, dtype=torch.float64)
    for coarse in PRECISIONS:
        fit = (x.to(coarse).double() == x).all(0)
        if int((~fit).sum()) <= _max_dimensions(x.shape[1]):
            eps[fit] = torch.finfo(coarse).eps
            break
    return eps


def _rounded(examined: Examined) -> Tensor:
    """Return a mask of dimensions with fewer decimals in all rows than three quarters of all dimensions."""
    cloud = examined.cloud
    looked_at = examined.sample[:LOOKED_AT]
    eps = _eps(looked_at, examined.cloud.sample.dtype)
    decimals = _decimals(looked_at, eps)
    # Whole numbers are how all values were written, however great they are.
    written = torch.where((looked_at == looked_at.round()).all(0), 0, decimals)
    usual = int(written.sort().values[_max_dimensions(cloud.d)])
    # Most clouds end here: the other rows are read only for dimensions that a sample leaves in doubt.
    at = (decimals < usual).nonzero().squeeze(1)
    nonzero = torch.zeros(len(at))
    for chunk, _, _ in finite_chunks(cloud.points) if len(at) else ():
        x = chunk[:, at].double()
        decimals[at] = torch.maximum(decimals[at], _decimals(x, eps[at], digits=0))
        nonzero += (x != 0).sum(0)
    is_rounded = torch.zeros(cloud.d, dtype=torch.bool)
    is_rounded[at] = (usual - decimals[at]) * nonzero >= BY_CHANCE
    return is_rounded


def _decimals(x: Tensor, eps: Tensor, digits: float = BY_CHANCE) -> Tensor:
    """Return the decimals that the values of each dimension of points [n, d] need; ``FRACTIONS`` for any other numbers.

    Large values have few decimals by chance, so all values together must be less likely than 1 in ``10 ** digits``.
    """
    needed = torch.full((x.shape[1],), FRACTIONS)
    rounding = 2 * eps * x.abs()
    for decimals in reversed(range(1, MOST_DECIMALS + 1)):
        step = 10.0**decimals
        scaled, fine = x * step, rounding * step
        chance = torch.where(x == 0, 1.0, (2 * fine).clamp(0.1, 1)).log10().sum(0)
        needed[((scaled - scaled.round()).abs() <= fine).all(0) & (-chance >= digits)] = decimals
    # In half precision, all large numbers are whole. In float32, numbers that large are times or ids.
    precise_enough = (rounding < 1).all(0) | (eps <= torch.finfo(torch.float32).eps)
    needed[(x == x.round()).all(0) & precise_enough] = 0
    return needed


def _of_few_values(examined: Examined) -> Tensor:
    """Return a mask of dimensions whose values mostly repeat where those of others seldom do."""
    x = examined.sample[:LOOKED_AT]
    ordered = x.sort(dim=0).values
    same = ordered[1:] == ordered[:-1]
    edge = torch.zeros(1, x.shape[1], dtype=torch.bool)
    again = (torch.cat([same, edge]) | torch.cat([edge, same])).sum(0)
    mode_counts = (x == x.mode(dim=0).values).sum(0)
    other_counts = len(x) - mode_counts
    share = (again - mode_counts).clamp(min=0) / other_counts.clamp(min=1)
    usual = float(share.sort(descending=True).values[_max_dimensions(x.shape[1])])
    finest = _eps(x, examined.cloud.sample.dtype) * x.abs().amax(0)
    if usual > SELDOM:
        return torch.zeros(x.shape[1], dtype=torch.bool)
    has_few_values: Tensor = (share >= REPEATED) & (other_counts >= BY_CHANCE) & (x.std(0) > STEPS * finest)
    return has_few_values
