"""Every measure, method and regularizer of this package: what it says, its formula, where it comes from.

Standard library only, so that a web process can show it without torch.
"""

from isotropy.catalog import directions, labels, neighbours, spread, topology
from isotropy.catalog.alignments import ALIGNMENTS, AlignmentEntry
from isotropy.catalog.directions import OUTLIER_RULES
from isotropy.catalog.findings import FINDINGS, KEPT, FindingEntry, effect_name
from isotropy.catalog.measure import (
    PLACES,
    Compared,
    Error,
    Group,
    Measure,
    Place,
    Reference,
    ReferenceValue,
    references,
)
from isotropy.catalog.postprocess import METHODS, Method, Parameter
from isotropy.catalog.regularizers import REGULARIZERS, Layers, Penalty, Points, Regularizer
from isotropy.catalog.tasks import METRICS, NEAR_COLUMNS, SIMILARITIES, TASKS, Similarity, TaskEntry, TruthKind

__all__ = [
    "ALIGNMENTS",
    "FINDINGS",
    "GROUPS",
    "KEPT",
    "MEASURES",
    "METHODS",
    "METRICS",
    "NEAR_COLUMNS",
    "OUTLIER_RULES",
    "PLACES",
    "REGULARIZERS",
    "SIMILARITIES",
    "TASKS",
    "AlignmentEntry",
    "Compared",
    "Error",
    "FindingEntry",
    "Group",
    "Layers",
    "Measure",
    "Method",
    "Parameter",
    "Penalty",
    "Place",
    "Points",
    "Reference",
    "ReferenceValue",
    "Regularizer",
    "Similarity",
    "TaskEntry",
    "TruthKind",
    "effect_name",
    "measures_in",
    "measures_of",
    "references",
]

GROUPS: dict[Group, str] = {
    "spread": "Spread of the variance",
    "directions": "Mean, directions and dimensions",
    "neighbours": "Neighbors and intrinsic dimension",
    "topology": "Topology",
    "labels": "Labels",
}
"""Headings of the groups, in the order in which to show them."""

MEASURES = {
    measure.slug: measure for group in (spread, directions, neighbours, topology, labels) for measure in group.MEASURES
}
"""Every measure by its slug, in the order in which to show them."""


def measures_of(group: Group) -> list[Measure]:
    """Return the measures of a group, in the order in which to show them."""
    return [measure for measure in MEASURES.values() if measure.group == group]


def measures_in(place: Place) -> list[Measure]:
    """Return the measures that a place shows, in the order in which to show them."""
    return [measure for measure in MEASURES.values() if place in measure.shown_in]
