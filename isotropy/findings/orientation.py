"""Whether rows and columns of a file are swapped, so that each row is a dimension of all texts."""

import numpy as np

from isotropy.cosine import unit_rows
from isotropy.findings.finding import Defect, Effect, ExaminedCloud, Severity
from isotropy.isoscore import isoscore

# Variance of the row means, in multiples of that expected by chance. In randomly rotated clouds it is a weighted mean
# of chi-squared variables with one degree of freedom: above 20 in fewer than 1 of 100,000 clouds.
MAX_BY_CHANCE = 20.0
MIN_CONTRAST = 10.0  # Ratio of the multiple for rows to that for columns
UNIT_TOLERANCE = 1e-3  # Difference from 1 up to which a column has unit length


def transposed(examined: ExaminedCloud) -> Defect | None:
    """Find swapped axes: fewer rows than dimensions, with row means like those of dimensions, or unit columns.

    Row means are those of rows at unit length, because longer rows of positive values have larger means. Dimensions
    have means of both signs, so rows whose means mostly share a sign are not dimensions.
    """
    cloud = examined.cloud
    if not examined.has_spread or cloud.n >= cloud.d:
        return None
    moments = cloud.moments
    row_means = np.concatenate([unit_rows(rows.double()).mean(1).numpy() for rows, _ in examined.all_rows()])
    energies = moments.scatter.diagonal() / cloud.n + moments.mean.square()
    grand_mean = float(moments.mean.mean())
    energy = float(energies.mean()) - grand_mean**2
    row_ratio = float(np.var(row_means)) * cloud.d / max(1 / cloud.d - float(row_means.mean()) ** 2, 1e-300)
    has_both_signs = float(np.var(row_means)) >= float(row_means.mean()) ** 2
    column_ratio = cloud.n * float(moments.mean.var(correction=0)) / energy
    lengths = (energies * cloud.n).sqrt() * cloud.unit
    columns_are_unit = bool(((lengths - 1).abs() <= UNIT_TOLERANCE).all())
    is_contrast = row_ratio > max(MAX_BY_CHANCE, MIN_CONTRAST * column_ratio) and column_ratio <= MAX_BY_CHANCE
    if not columns_are_unit and not (is_contrast and has_both_signs):
        return None
    evidence = (
        "Every column has length 1, as rows of normalized embeddings have."
        if columns_are_unit
        else f"The means of the rows differ {row_ratio:,.3g} times as much as by chance, those of the columns "
        f"{column_ratio:,.2g} times. In embeddings, the means of dimensions differ and those of rows do not."
    )
    return Defect(
        slug="transposed",
        severity=Severity.ERROR,
        title=f"Rows and columns look swapped: {cloud.n:,} rows of {cloud.d:,} dimensions",
        evidence=evidence,
        effect=Effect("isoscore", cloud.moment_scores["isoscore"], isoscore(cloud.sample.double().T)),
    )
