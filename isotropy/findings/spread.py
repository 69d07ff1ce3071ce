"""Findings about the cloud as a whole: its mean, its spread, and the norms and number of its rows."""

import numpy as np
import torch
from scipy.special import chdtri
from torch import Tensor

from isotropy.catalog import Similarity
from isotropy.findings.finding import (
    FEWEST_DIMENSIONS,
    FEWEST_ROWS,
    MATERIAL,
    Defect,
    Effect,
    ExaminedCloud,
    Severity,
    judge,
    percent,
)
from isotropy.findings.limits import find_largest_gap, healthy_limit
from isotropy.isoscore import isoscore_from_covariance
from isotropy.score import Score
from isotropy.spectrum import eigenvalues

LEVEL = 0.001  # Significance level
# Share of the energy above which the mean outweighs the rest of a row; most real clouds have less.
OUTWEIGHING_SHARE = 0.5
# Spread relative to the mean's length below which rows count as one vector: cosines of two rows exceed 0.9999.
NEARLY_EQUAL = 0.01
EQUAL = 1e-6  # Limit of the same ratio, below which rows differ only by float32 rounding
EQUAL_IN_FLOAT64 = 1e-12  # The same limit for values with more digits than float32
COLLAPSED_SHARE = 0.9  # Minimum share of the variance in the directions of a collapsed cloud
CLIFF = 10.0  # Minimum ratio of variances between the last of these directions and the next
# The same share about cluster means: at most 0.5 in isotropic clusters, but 0.76 for two halves of a Gaussian line.
MIN_SHARE_IN_CLUSTERS = 0.75


def max_collapsed_directions(n: int, d: int) -> int:
    return max(1, min(n // 4, d // 2))


def collapsed(examined: ExaminedCloud) -> Defect | None:
    """Detect rows that are all equal (an error), nearly equal, or confined to a few directions."""
    cloud = examined.cloud
    moments = cloud.moments
    if cloud.n < 2 or cloud.d < 2 or not moments.scatter.isfinite().all():
        return None
    spread = float((moments.covariance().trace()).sqrt() / moments.mean.norm()) if moments.mean.any() else 1.0
    if moments.scatter.any() and not spread < NEARLY_EQUAL:
        return _find_few_directions(examined) if examined.has_spread else None
    equality_limit = EQUAL_IN_FLOAT64 if examined.float64_mask.any() else EQUAL
    all_equal = not cloud.moments.scatter.any() or spread < equality_limit
    centering_effect = examined.neighbors_kept(examined.sample - cloud.moments.mean)
    undefined_effect = Effect("isoscore", cloud.moment_scores["isoscore"], Score.undefined("All rows are equal."))
    return Defect(
        slug="collapsed",
        severity=Severity.ERROR if all_equal else judge([centering_effect], cloud.d)[1],
        title="All rows are equal" if all_equal else "All rows are nearly the same vector",
        evidence=(
            f"The rows differ by {0 if all_equal else spread:.1g} of the length of their mean"
            f"{', within rounding' if all_equal else f': the cosine of two rows is about {1 - spread**2:.6f}'}."
        ),
        effect=undefined_effect if all_equal else centering_effect,
        advice="Check the training: a collapsed loss or a constant input is common.",
    )


def _find_few_directions(examined: ExaminedCloud) -> Defect | None:
    cloud = examined.cloud
    S = cloud.moments.covariance()
    values = eigenvalues(S, cloud.n - 1)
    gap = find_largest_gap(values, max_collapsed_directions(cloud.n_independent, cloud.d))
    k, gap_limit = gap.n_above, healthy_limit("direction_gap", cloud.n_independent, cloud.d)
    share, variance_left = float(values[:k].sum() / values.sum()), float(values[k:].sum())
    if gap.excess <= gap_limit or gap.ratio < CLIFF or share < COLLAPSED_SHARE:
        return None
    # Clusters may span these directions and be as wide in all others, unless rows nearly equal one of a few points.
    if variance_left > NEARLY_EQUAL**2 * float(values.sum()) and (n := len(examined.sample)) >= 4 * k:
        from scipy.cluster.hierarchy import linkage  # noqa: PLC0415 - slow to import

        y = examined.sample @ torch.linalg.eigh(S).eigenvectors[:, -k:]
        # A merger of two clusters at this height adds half its square to the squares within k + 1 clusters (Ward 1963).
        within_variance = float(np.square(linkage(y.numpy(), "ward")[:-k, 2]).sum()) / 2 / (n - k - 1)
        if within_variance < MIN_SHARE_IN_CLUSTERS * (within_variance + variance_left):
            return None
    isoscore_left = isoscore_from_covariance(torch.diag(values[:k] if k > 1 else values[1:]))
    effect, severity = judge([Effect("isoscore", cloud.moment_scores["isoscore"], isoscore_left)], cloud.d)
    if not values[1:].any():  # without the line that the rows lie on, nothing is left to compare
        severity = Severity.WARNING
    directions = "1 direction holds" if k == 1 else f"{k:,} directions hold"
    context = "in these directions" if k > 1 else "without it"
    return Defect(
        slug="collapsed",
        severity=severity,
        title=f"{directions} {percent(share)} of the variance",
        evidence=(
            f"After direction {k:,} of {cloud.d:,} the variance drops {min(gap.ratio, 1e12):.3g}-fold. The effect is "
            f"IsoScore {context}."
        ),
        effect=effect,
    )


def common_mean(examined: ExaminedCloud) -> Defect | None:
    """Find a mean shared by all rows that changes which rows are near each other.

    By chance, its share of the energy is a chi-squared variable with as many degrees of freedom as effective
    dimensions, divided by these and by the number of rows.
    """
    cloud = examined.cloud
    share = cloud.moment_scores["mean_share"].value
    if not examined.has_spread or share is None or "collapsed" in examined.defect_slugs:
        return None
    dimensions = examined.effective_dimensions
    chance_share = float(chdtri(dimensions, LEVEL)) / dimensions / max(cloud.n_independent, 1)
    if share <= chance_share:
        return None
    effect = examined.neighbors_kept(examined.sample - cloud.moments.mean)
    if effect.change <= MATERIAL:
        return None
    severity = judge([effect], cloud.d)[1] if share > OUTWEIGHING_SHARE else Severity.NOTE
    return Defect(
        slug="common_mean",
        severity=severity,
        title=f"The mean holds {percent(share)} of the energy",
        evidence=(
            f"Two random rows have a cosine of about {share:.2f} because of it. By chance the mean of as many centered "
            f"rows holds at most {percent(chance_share)}."
        ),
        effect=effect,
    )


def too_few_rows(examined: ExaminedCloud) -> Defect | None:
    """Find plain IsoScore biased low by more than 0.05 because of few rows; a warning below d rows.

    Fewer than eight independent rows are always reported, a single row as an error. Skipped for parts of mixed clouds.
    With n rows, 1 over the participation ratio is too large by about 1/n.
    """
    cloud = examined.cloud
    n_rows = cloud.n_independent
    if cloud.n < 1 or cloud.d < 2 or {"collapsed", "duplicate_rows", "mixed_clouds"} & examined.defect_slugs:
        return None
    scores = cloud.moment_scores
    plain, corrected = scores["isoscore"], scores["isoscore_unbiased"]
    noun = "independent row" if n_rows < cloud.n else "row"
    if n_rows < FEWEST_ROWS:
        reason = f"The bias-corrected score says nothing below {FEWEST_ROWS} independent rows."
        return Defect(
            slug="too_few_rows",
            severity=Severity.WARNING if cloud.n > 1 else Severity.ERROR,
            title=f"Only {n_rows} {noun}{'' if n_rows == 1 else 's'} for {cloud.d:,} dimensions",
            evidence=reason,
            effect=Effect("isoscore_unbiased", *[Score.undefined(reason)] * 2),
            advice="Measure more rows.",
        )
    if plain.value is None:
        return None
    bias = examined.effective_dimensions**2 / (n_rows + examined.effective_dimensions) / (cloud.d - 1)
    reference_score = corrected if corrected.value is not None else Score(min(plain.value + bias, 1.0))
    effect = Effect("isoscore", plain, reference_score)
    if bias <= MATERIAL or not effect.is_material(cloud.d):
        return None
    return Defect(
        slug="too_few_rows",
        severity=Severity.WARNING if n_rows < cloud.d else Severity.NOTE,
        title=f"{n_rows:,} {noun}s are few for {cloud.d:,} dimensions",
        evidence=(
            f"With so few rows plain IsoScore reads low, by about {bias:.2g}. The effect is the bias-corrected score."
        ),
        effect=effect,
    )


DECILES = torch.tensor([0.1, 0.9], dtype=torch.float64)


def unequal_norms(examined: ExaminedCloud) -> Defect | None:
    """Find rows with unusual norms, if norms vary more than in a heavy-tailed cloud."""
    if not examined.has_spread or not has_unequal_norms(examined):
        return None
    spread, spread_limit = norm_spread(examined.sample), _norm_limit(examined)
    median_log_norm = float(_nonzero_norms(examined.sample).log().median())
    far_positions = []
    for rows, positions in examined.reference_rows():
        is_far = (torch.linalg.vector_norm(rows.double(), dim=1).log() - median_log_norm).abs() > spread_limit
        far_positions.append(positions[is_far].numpy())
    effect, severity = judge([examined.neighbors_kept(examined.sample, Similarity.DOT)], examined.cloud.d)
    return Defect(
        slug="unequal_norms",
        severity=severity,
        title=f"Row norms differ by a factor of {np.exp(spread):.3g}",
        evidence=(
            f"The 90% point of the norms is {np.exp(spread):.3g} times the 10% point. In a heavy-tailed cloud "
            f"(Student's t, 5 degrees of freedom) it is at most {np.exp(spread_limit):.2g} times."
        ),
        effect=effect,
        rows=np.sort(np.concatenate(far_positions)),
    )


def has_unequal_norms(examined: ExaminedCloud) -> bool:
    dimensions = max(examined.effective_dimensions, examined.effective_directions)
    return dimensions >= FEWEST_DIMENSIONS and norm_spread(examined.sample) > _norm_limit(examined)


def norm_spread(x: Tensor) -> float:
    """Return the log ratio of the 90th to the 10th percentile of the norms of points [n, d], ignoring zero rows."""
    norms = _nonzero_norms(x)
    if len(norms) < 2:
        return 0.0
    low, high = norms.log().quantile(DECILES).tolist()
    return float(high - low)


def _nonzero_norms(x: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(x.double(), dim=1)
    return norms[norms > 0]


def _norm_limit(examined: ExaminedCloud) -> float:
    dimensions = max(examined.effective_dimensions, examined.effective_directions)
    return healthy_limit("norm_spread_t5", len(examined.sample), dimensions)
