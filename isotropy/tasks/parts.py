"""Rows in groups that depend on each other, and their split into the parts that fit, choose and report."""

from collections.abc import Hashable, Iterable, Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from isotropy.catalog import FEWEST_GROUPS

Codes = NDArray[np.int64]


class TaskPart(IntEnum):
    """The part of the ground truth that a unit belongs to."""

    FIT = 0
    CHOOSE = 1
    REPORT = 2


# Parts of every five groups: 20, 40 and 40 percent.
VARIANT_PARTS = (TaskPart.FIT, TaskPart.CHOOSE, TaskPart.CHOOSE, TaskPart.REPORT, TaskPart.REPORT)


def groups_of(keys: Sequence[Iterable[Hashable]]) -> Codes:
    """Return the group of each unit, int64 [m], by its keys: units linked by shared keys, if only through others."""
    parents = list(range(len(keys)))

    def find_root(unit: int) -> int:
        while parents[unit] != unit:
            parents[unit] = parents[parents[unit]]
            unit = parents[unit]
        return unit

    first_units: dict[Hashable, int] = {}
    for unit, unit_keys in enumerate(keys):
        for key in unit_keys:
            parents[find_root(unit)] = find_root(first_units.setdefault(key, unit))
    return np.unique([find_root(unit) for unit in range(len(keys))], return_inverse=True)[1].astype(np.int64)


def split(groups: Codes, seed: int, parts_of_five: Sequence[TaskPart] = VARIANT_PARTS) -> Codes:
    """Return the part of each unit, int64 [m]; no group is divided.

    Every five groups of similar size get ``parts_of_five`` in random order. Raises ValueError for fewer than
    ``FEWEST_GROUPS`` groups, or one that outweighs the others.
    """
    sizes = np.bincount(groups)
    effective_groups = len(groups) ** 2 / np.square(sizes).sum() if len(sizes) else 0  # fewer if their sizes differ
    if effective_groups < FEWEST_GROUPS:
        raise ValueError(
            f"Expected at least {FEWEST_GROUPS} independent groups of about equal size to fit, choose and report on, "
            f"got {len(sizes)} groups of {len(groups):,} rows in all, {sizes.max(initial=0):,} in the largest: add "
            "ground truth that is independent of the rest, or name the groups yourself."
        )
    generator = np.random.default_rng(seed)
    shuffled = generator.permutation(len(sizes))
    groups_by_size = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    n_rounds = -(-len(groups_by_size) // len(parts_of_five))
    dealt_parts = np.concatenate([generator.permutation(parts_of_five) for _ in range(n_rounds)])[: len(groups_by_size)]
    group_parts = np.empty(len(sizes), np.int64)
    group_parts[groups_by_size] = dealt_parts
    return group_parts[groups]
