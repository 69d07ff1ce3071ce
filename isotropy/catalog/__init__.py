"""Measures, methods and regularizers of this package with formulas and sources; imports only the standard library."""

from isotropy.catalog import directions, labels, neighbors, spread, topology
from isotropy.catalog.alignments import ALIGNMENTS, AlignmentEntry
from isotropy.catalog.directions import OUTLIER_RULES
from isotropy.catalog.findings import FINDINGS, NEIGHBORS_KEPT, FindingEntry, effect_name
from isotropy.catalog.formatting import format_percent, format_signed
from isotropy.catalog.measure import (
    MEASURE_PAGES,
    Comparability,
    ErrorKind,
    Measure,
    MeasureGroup,
    MeasurePage,
    ReferenceCloud,
    ReferenceScore,
    references,
)
from isotropy.catalog.postprocess import METHODS, MethodEntry, MethodParameter
from isotropy.catalog.regularizers import REGULARIZERS, Layers, Regularizer, RegularizerEntry, TokenPooling
from isotropy.catalog.tasks import (
    FEWEST_GROUPS,
    METRICS,
    NEAR_COLUMNS,
    SIMILARITIES,
    TASKS,
    Similarity,
    TaskEntry,
    TruthKind,
)

__all__ = [
    "ALIGNMENTS", "FEWEST_GROUPS", "FINDINGS", "GROUPS", "MEASURES", "MEASURE_PAGES", "METHODS", "METRICS",
    "NEAR_COLUMNS", "NEIGHBORS_KEPT", "OUTLIER_RULES", "REGULARIZERS", "SIMILARITIES", "TASKS", "AlignmentEntry",
    "Comparability", "ErrorKind", "FindingEntry", "Layers", "Measure", "MeasureGroup", "MeasurePage", "MethodEntry",
    "MethodParameter", "ReferenceCloud", "ReferenceScore", "Regularizer", "RegularizerEntry", "Similarity", "TaskEntry",
    "TokenPooling", "TruthKind", "effect_name", "format_percent", "format_signed", "measures_in", "measures_of",
    "references",
]  # fmt: skip

# Group headings, in display order.
GROUPS: dict[MeasureGroup, str] = {
    "spread": "Spread of the variance",
    "directions": "Mean, directions and dimensions",
    "neighbors": "Neighbors and intrinsic dimension",
    "topology": "Topology",
    "labels": "Labels",
}

# All measures by slug, in display order.
MEASURES = {
    measure.slug: measure for group in (spread, directions, neighbors, topology, labels) for measure in group.MEASURES
}


def measures_of(group: MeasureGroup) -> list[Measure]:
    return [measure for measure in MEASURES.values() if measure.group == group]


def measures_in(page: MeasurePage) -> list[Measure]:
    return [measure for measure in MEASURES.values() if page in measure.shown_in]
