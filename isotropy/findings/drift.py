"""Drift: whether a cloud differs from an earlier one, and by how much.

The energy distance (2 E|x - y| - E|x - x'| - E|y - y'|) / 2 E|x - y| is 0 for equal distributions and at most 1
(Székely & Rizzo 2013). Shared rows are compared by their 10 nearest neighbors. With many rows any difference is
significant, so the effect size decides.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from isotropy.catalog import MEASURES
from isotropy.cloud import Cloud
from isotropy.cosine import unit_rows
from isotropy.findings.finding import MATERIAL, Defect, Effect, Severity, neighbors_kept_effect, percent
from isotropy.findings.nearest import COPY_DISTANCE, NEAREST
from isotropy.score import FEWEST_FOR_SE, Score

ROWS = 2000  # Rows of each cloud between which distances are measured
PERMUTATIONS = 999
SEED = 0
SHARED_ROWS = 4000  # Rows that both clouds have, among which neighbors are compared
QUERIES = 1000
# Fraction of the median norm below which a row counts as zero, because its direction is mere rounding error.
MIN_NORM = 1e-5
# Measures that the evidence names if they moved by more than 0.005 and twice the standard error of their difference.
REPORTED_MEASURES = ("isoscore_unbiased", "mean_share")


class SharedRows(NamedTuple):
    """The same items in two clouds, in the same order."""

    now: Tensor  # [m, d]
    before: Tensor  # [m, any]


class EnergyDistance(NamedTuple):
    """Normalized energy distance, and its permutation p-value."""

    distance: float
    p: float


def drift(cloud: Cloud, baseline: Cloud, shared: SharedRows | None = None) -> Defect | None:
    """Return how a cloud differs from a baseline, or None if it does not.

    It is a warning if the energy distance or the share of changed neighbors exceeds 0.05 and chance. Clouds with
    different numbers of dimensions are compared by their shared rows only.
    """
    energy = energy_distance(cloud, baseline) if cloud.d == baseline.d else None
    neighbors_kept = None if shared is None else _neighbors_kept(*(x[:SHARED_ROWS].double() for x in shared))
    effects = [] if neighbors_kept is None else [neighbors_kept]
    exceeds_chance = energy is not None and energy.p <= 1 / (PERMUTATIONS + 1)  # no permutation is as far apart
    if energy is not None and exceeds_chance:
        effects.append(Effect("energy_distance", Score(0.0), Score(energy.distance)))
    material = [candidate for candidate in effects if candidate.is_material(cloud.d)]
    if not material and not exceeds_chance:
        return None
    effect = max(material or effects, key=lambda candidate: candidate.change)
    value_after = effect.after.value or 0.0
    title = f"{percent(1 - value_after)} of the nearest neighbors changed"
    if effect.measure == "energy_distance":
        title = f"The cloud moved: energy distance {value_after:.2g} of 1"
    evidence = [f"The baseline has {baseline.d:,} dimensions, this cloud {cloud.d:,}."]
    if energy is not None:
        evidence = [f"The energy distance is {energy.distance:.2g} of 1 (permutation test, p = {energy.p:.3g})."]
    if neighbors_kept is not None:
        share = percent(neighbors_kept.after.value or 0.0)
        evidence.insert(0, f"Rows in both keep {share} of their 10 nearest neighbors by cosine.")
    for slug in REPORTED_MEASURES:
        current, previous = cloud.moment_scores[slug], baseline.moment_scores[slug]
        if None in (current.value, previous.value, current.se, previous.se):
            continue
        error = float(np.hypot(current.se or 0, previous.se or 0))
        if abs(float(current.value or 0) - float(previous.value or 0)) > max(2 * error, MATERIAL / 10):
            evidence.append(f"{MEASURES[slug].name} moved from {previous.value:.3g} to {current.value:.3g}.")
    return Defect(
        slug="drift",
        severity=Severity.WARNING if material else Severity.NOTE,
        title=title,
        evidence=" ".join(evidence),
        effect=effect,
    )


def energy_distance(cloud: Cloud, baseline: Cloud) -> EnergyDistance | None:
    """Return the energy distance of two clouds with equal d, permuting whole groups; None if one has under 2 rows."""
    x, y = (side.sample[:ROWS].double() * side.unit for side in (cloud, baseline))
    if min(len(x), len(y)) < 2:
        return None
    pooled = torch.cat([x, y])
    pooled = pooled - pooled.mean(0)
    size = float(pooled.abs().max())
    # Centered before float32, so that distances of rows far from the origin keep their digits.
    scaled = (pooled / size if size else pooled).float()
    D = torch.cdist(scaled, scaled)
    # Offset group numbers, so that the clouds share none.
    groups_by_cloud = []
    for side, offset in ((cloud, 0), (baseline, cloud.points.n)):
        positions, numbers = side.rows[:ROWS].numpy(), side.dealing.group_numbers
        groups_by_cloud.append((positions if numbers is None else numbers[positions]) + offset)
    groups = np.concatenate(groups_by_cloud)
    # 1 for rows of the first cloud, else 0: as they are in column 0, then in each permutation.
    is_first = torch.zeros(len(pooled), 1 + PERMUTATIONS)
    is_first[: len(x), 0] = 1
    # Each permutation assigns whole groups at random to the first cloud, keeping its number of groups.
    _, first_rows, group_numbers = np.unique(groups, return_index=True, return_inverse=True)
    first_group_count = int((first_rows < len(x)).sum())
    generator = np.random.default_rng(SEED)
    permuted = np.zeros((len(first_rows), PERMUTATIONS), np.float32)
    for column in range(PERMUTATIONS):
        permuted[generator.permutation(len(first_rows))[:first_group_count], column] = 1
    is_first[:, 1:] = torch.from_numpy(permuted[group_numbers])
    # With weights w of 1/n in one cloud and -1/m in the other, the energy distance is -w' D w.
    weights = is_first / is_first.sum(0) - (1 - is_first) / (1 - is_first).sum(0)
    energies = -(weights * (D @ weights)).sum(0)
    cross = float((is_first[:, 0] @ D @ (1 - is_first[:, 0])) / (len(x) * len(y)))
    if cross == 0:
        return EnergyDistance(0.0, 1.0)
    reached_count = int((energies[1:] >= energies[0]).sum())
    return EnergyDistance(max(float(energies[0]), 0.0) / (2 * cross), (reached_count + 1) / (PERMUTATIONS + 1))


def _neighbors_kept(current: Tensor, previous: Tensor) -> Effect | None:
    """Return the share of the 10 nearest neighbors by cosine that stay; None if too few rows have a direction in both.

    Rows tied with the tenth neighbor count too, because rounding reorders ties.
    """
    lengths = [torch.linalg.vector_norm(x, dim=1) for x in (current, previous)]
    has_direction = (lengths[0] > MIN_NORM * lengths[0].median()) & (lengths[1] > MIN_NORM * lengths[1].median())
    if int(has_direction.sum()) < FEWEST_FOR_SE:
        return None
    neighbor_masks = []
    for x in (current, previous):
        units = unit_rows(x[has_direction])
        centered = units - units.mean(0)
        distances = torch.cdist(centered[:QUERIES], centered).fill_diagonal_(torch.inf)
        tenth_distances = distances.topk(min(NEAREST, len(units) - 1), largest=False).values[:, -1:]
        neighbor_masks.append(distances <= tenth_distances + COPY_DISTANCE * centered.square().sum(1).mean().sqrt())
    current_mask, previous_mask = neighbor_masks
    shares_kept = (current_mask & previous_mask).sum(1) / torch.maximum(current_mask.sum(1), previous_mask.sum(1))
    return neighbors_kept_effect(
        float(shares_kept.mean()), float(shares_kept.std(correction=0) / len(shares_kept) ** 0.5)
    )
