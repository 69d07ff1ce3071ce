"""Problems of a cloud: each finding with its rows or dimensions, and the effect of removing them."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from isotropy.catalog.findings import FINDINGS
from isotropy.cloud import Cloud
from isotropy.findings.dimensions import constant_dimensions, doubled_dimensions, rogue_dimensions
from isotropy.findings.empty_rows import truncated_rows, zero_rows
from isotropy.findings.finding import MAX_LISTED, Defect, Effect, ExaminedCloud, Finding, Severity, percent
from isotropy.findings.hubs import hubs
from isotropy.findings.metadata import metadata_as_coordinates
from isotropy.findings.mixed_clouds import mixed_clouds
from isotropy.findings.orientation import transposed
from isotropy.findings.outlier_rows import outlier_rows
from isotropy.findings.saturation import saturated_dimensions
from isotropy.findings.spread import collapsed, common_mean, too_few_rows, unequal_norms
from isotropy.findings.suspect_rows import duplicate_rows, not_finite
from isotropy.findings.unrelated_rows import unrelated_rows
from isotropy.projection import NamesOf

logger = logging.getLogger(__name__)

__all__ = ["CHECKS", "Effect", "Finding", "Severity", "findings_of", "sort_findings", "to_finding"]

# Causes come before their symptoms: each check examines the cloud without the rows and dimensions that earlier checks
# flagged. An error ends the checks.
CHECKS: tuple[Callable[[ExaminedCloud], Defect | None], ...] = (
    not_finite,
    transposed,
    zero_rows,
    constant_dimensions,
    truncated_rows,
    metadata_as_coordinates,
    outlier_rows,
    duplicate_rows,
    doubled_dimensions,
    saturated_dimensions,
    rogue_dimensions,
    mixed_clouds,
    unrelated_rows,
    unequal_norms,
    hubs,
    collapsed,
    common_mean,
    too_few_rows,
)


def findings_of(
    cloud: Cloud, names_of: NamesOf = lambda _: None, dimension_names: Sequence[str] | None = None
) -> list[Finding]:
    """Return the findings of a cloud: errors, then warnings by effect, then notes; empty for a healthy cloud.

    ``names_of`` returns the names of rows by their positions int64 [m], or None if rows have no names.
    """
    findings = []
    examined = ExaminedCloud.from_cloud(cloud)
    for check in CHECKS:
        try:
            defect = check(examined)
        except RuntimeError:  # eigenvalues may not converge; one check must not fail the report
            logger.warning("%s could not be checked", check.__name__, exc_info=True)
            continue
        if defect is None:
            continue
        counts = [(examined.cloud.n, cloud.n, "rows"), (examined.cloud.d, cloud.d, "dimensions")]
        scope = " and ".join(
            f"{remaining_count:,} of {total:,} {noun}"
            for remaining_count, total, noun in counts
            if remaining_count < total
        )
        if scope:
            title = f"{defect.title} ({scope})"
            share = cloud.moment_scores["mean_share"].value
            if defect.slug == "common_mean" and share is not None:  # a report's headline has the share of all
                title += f", {percent(share)} with all"
            evidence = f"{defect.evidence} Measured on the {scope} that no other finding flags."
            defect = defect._replace(title=title, evidence=evidence)
        findings.append(to_finding(defect, names_of, dimension_names))
        if defect.severity is Severity.ERROR:
            break
        examined = examined if defect.remaining is None else defect.remaining
        if defect.severity is not Severity.NOTE:
            examined = replace(examined, defect_slugs=examined.defect_slugs | {defect.slug})
    return sort_findings(findings)


def sort_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Sort findings by severity, then effect; notes about specific rows or dimensions come before general ones."""

    def rank(finding: Finding) -> tuple[int, bool, float]:
        is_general = finding.severity is Severity.NOTE and not finding.rows and not finding.dimensions
        return finding.severity.rank, is_general, -finding.effect.change

    return sorted(findings, key=rank)


def to_finding(defect: Defect, names_of: NamesOf, dimension_names: Sequence[str] | None) -> Finding:
    """Add names of rows and dimensions, and advice, to a defect."""
    rows, dimensions = defect.rows[:MAX_LISTED], defect.dimensions[:MAX_LISTED].tolist()
    return Finding(
        slug=defect.slug,
        severity=defect.severity,
        title=defect.title,
        evidence=defect.evidence,
        rows=rows.tolist(),
        row_count=len(defect.rows),
        names=names_of(torch.from_numpy(rows)) if len(rows) else None,
        dimensions=dimensions,
        dimension_count=len(defect.dimensions),
        dimension_names=None if dimension_names is None else [dimension_names[dimension] for dimension in dimensions],
        effect=defect.effect,
        advice=defect.advice or FINDINGS[defect.slug].advice,
        all_rows=defect.rows,
        all_dimensions=defect.dimensions,
    )
