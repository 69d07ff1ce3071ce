"""Dimensions that are not coordinates: ids, labels, counts, prices or times that came along with the vectors.

Their values have few decimals where other dimensions have arbitrary fractions, or repeat, or follow the row order. A
property that most dimensions share comes from how values were written, and is not a finding.
"""

import torch
from torch import Tensor

from isotropy.findings.dimensions import examine_without, format_dimensions
from isotropy.findings.finding import Defect, ExaminedCloud
from isotropy.rows import finite_chunks

MAX_SHARE = 0.25  # Maximum share of metadata dimensions; with more, all values were written that way
INSPECTED_ROWS = 1000  # Rows of the sample used to infer how values were written
MAX_DECIMALS = 6  # Maximum decimals of a number that counts as rounded
ANY_DECIMALS = MAX_DECIMALS + 1  # Stands for numbers with any fraction
MIN_ZERO_DIGITS = 10  # Minimum zero digits beyond those of other dimensions, over all rows, that rule out chance
MIN_OTHER_VALUES = 10  # Minimum rows with another value than the most frequent, in a dimension of few values
# Minimum share of repeats, ignoring the most frequent value, in a dimension of few values.
MIN_REPEATED_SHARE = 0.8
MAX_SHARE_ELSEWHERE = 0.2  # Maximum of the same share in other dimensions; more indicates coarse numbers or copied rows
# Minimum representable numbers per standard deviation; with fewer, repeats may come from rounding.
MIN_STEPS_PER_SD = 1e4
# Precisions that values may have had before they were written, coarsest first.
PRECISIONS = (torch.bfloat16, torch.float16, torch.float32)
MIN_ROW_CORRELATION = 0.995  # Correlation with the row number of a dimension that counts rows


def metadata_as_coordinates(examined: ExaminedCloud) -> Defect | None:
    """Find dimensions with rounded or few values among continuous ones, and dimensions that count rows."""
    cloud = examined.cloud
    if not examined.has_spread or cloud.d < 3 or cloud.unit != 1:
        return None
    # Find monotonic dimensions that are linear in the row number.
    row_numbers = cloud.rows.double()
    row_numbers = row_numbers - row_numbers.mean()
    x = cloud.sample.double()
    y = x - x.mean(0)
    correlations = (row_numbers @ y) / (y.square().sum(0).sqrt() * row_numbers.norm()).clamp(min=1e-300)
    counts_rows: Tensor = correlations.abs() > MIN_ROW_CORRELATION
    if counts_rows.any():
        steps = x[cloud.rows.argsort()][:, counts_rows].diff(dim=0)
        counts_rows[counts_rows.clone()] = (steps >= 0).all(0) | (steps <= 0).all(0)
    is_metadata = _rounded_mask(examined) | _few_values_mask(examined) | counts_rows
    count = int(is_metadata.sum())
    if not 0 < count <= _max_dimensions(cloud.d):
        return None
    if (removal := examine_without(examined, is_metadata)) is None:
        return None
    remaining, effect, severity = removal
    return Defect(
        slug="metadata_as_coordinates",
        severity=severity,
        title=f"{format_dimensions(count)} {'looks' if count == 1 else 'look'} like metadata",
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


def _rounding_by_dimension(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the relative rounding [d] of dimensions: of the coarsest type that most of them fit, else of ``dtype``."""
    eps = torch.full((x.shape[1],), torch.finfo(dtype).eps, dtype=torch.float64)
    for precision in PRECISIONS:
        fits = (x.to(precision).double() == x).all(0)
        if int((~fits).sum()) <= _max_dimensions(x.shape[1]):
            eps[fits] = torch.finfo(precision).eps
            break
    return eps


def _rounded_mask(examined: ExaminedCloud) -> Tensor:
    """Return a mask [d] of dimensions with fewer decimals, in all rows, than at least three quarters of dimensions."""
    cloud = examined.cloud
    rows = examined.sample[:INSPECTED_ROWS]
    eps = _rounding_by_dimension(rows, examined.cloud.sample.dtype)
    decimals = _count_decimals(rows, eps)
    # Whole numbers have 0 decimals, however large they are.
    written_decimals = torch.where((rows == rows.round()).all(0), 0, decimals)
    usual_decimals = int(written_decimals.sort().values[_max_dimensions(cloud.d)])
    # Most clouds end here: all rows are read only for dimensions that the sample leaves in doubt.
    suspects = (decimals < usual_decimals).nonzero().squeeze(1)
    nonzero = torch.zeros(len(suspects))
    for chunk, _, _ in finite_chunks(cloud.points) if len(suspects) else ():
        x = chunk[:, suspects].double()
        decimals[suspects] = torch.maximum(decimals[suspects], _count_decimals(x, eps[suspects], digits=0))
        nonzero += (x != 0).sum(0)
    is_rounded = torch.zeros(cloud.d, dtype=torch.bool)
    is_rounded[suspects] = (usual_decimals - decimals[suspects]) * nonzero >= MIN_ZERO_DIGITS
    return is_rounded


def _count_decimals(x: Tensor, eps: Tensor, digits: float = MIN_ZERO_DIGITS) -> Tensor:
    """Return the decimals [d] that the values of each dimension of points [n, d] need; ``ANY_DECIMALS`` if too many.

    Large values have few decimals by chance, so all values together must be less likely than 1 in ``10 ** digits``.
    """
    decimals_needed = torch.full((x.shape[1],), ANY_DECIMALS)
    rounding = 2 * eps * x.abs()
    for decimals in reversed(range(1, MAX_DECIMALS + 1)):
        factor = 10.0**decimals
        scaled, tolerance = x * factor, rounding * factor
        log_chance = torch.where(x == 0, 1.0, (2 * tolerance).clamp(0.1, 1)).log10().sum(0)
        is_exact = ((scaled - scaled.round()).abs() <= tolerance).all(0)
        decimals_needed[is_exact & (-log_chance >= digits)] = decimals
    # In half precision, all large numbers are whole. In float32, numbers that large are times or ids.
    is_precise = (rounding < 1).all(0) | (eps <= torch.finfo(torch.float32).eps)
    decimals_needed[(x == x.round()).all(0) & is_precise] = 0
    return decimals_needed


def _few_values_mask(examined: ExaminedCloud) -> Tensor:
    """Return a mask [d] of dimensions whose values mostly repeat, if values of other dimensions seldom do."""
    x = examined.sample[:INSPECTED_ROWS]
    ordered = x.sort(dim=0).values
    equals_next = ordered[1:] == ordered[:-1]
    edge = torch.zeros(1, x.shape[1], dtype=torch.bool)
    repeat_counts = (torch.cat([equals_next, edge]) | torch.cat([edge, equals_next])).sum(0)
    mode_counts = (x == x.mode(dim=0).values).sum(0)
    other_counts = len(x) - mode_counts
    repeat_share = (repeat_counts - mode_counts).clamp(min=0) / other_counts.clamp(min=1)
    usual_share = float(repeat_share.sort(descending=True).values[_max_dimensions(x.shape[1])])
    resolution = _rounding_by_dimension(x, examined.cloud.sample.dtype) * x.abs().amax(0)
    if usual_share > MAX_SHARE_ELSEWHERE:
        return torch.zeros(x.shape[1], dtype=torch.bool)
    has_few_values: Tensor = (
        (repeat_share >= MIN_REPEATED_SHARE)
        & (other_counts >= MIN_OTHER_VALUES)
        & (x.std(0) > MIN_STEPS_PER_SD * resolution)
    )
    return has_few_values
