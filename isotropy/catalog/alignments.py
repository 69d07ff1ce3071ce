"""Measures that compare two embeddings of the same rows. Standard library only."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class AlignmentEntry:
    """A measure of two embeddings of the same rows, in plain text."""

    slug: str
    name: str
    range: str
    meaning: str
    pitfall: str
    citation: str
    bounds: tuple[float, float] = (0.0, 1.0)  # Limits of every interval


# By slug, in display order.
ALIGNMENTS = {
    entry.slug: entry
    for entry in (
        AlignmentEntry(
            slug="cka",
            name="Linear CKA, debiased",
            range="about 0 (unrelated) to 1 (equal up to rotation and scale)",
            meaning="Whether the same pairs of rows are similar in both.",
            bounds=(-1.0, 1.0),
            pitfall="Dominated by a few directions with large variance.",
            citation="Kornblith, Norouzi, Lee & Hinton (2019). Similarity of Neural Network Representations Revisited. "
            "ICML 2019. Song, Smola, Gretton, Bedo & Borgwardt (2012). Feature Selection via Dependence Maximization. "
            "JMLR 13, 1393–1434.",
        ),
        AlignmentEntry(
            slug="neighbor_overlap",
            name="Top-10 neighbors shared",
            range="0 (none) to 1 (all)",
            meaning="Share of each row's 10 nearest by cosine that are the same in both. Copies count as one another.",
            pitfall="Depends on the number of rows. By chance it is 10 / (rows − 1).",
            citation="This project.",
        ),
        AlignmentEntry(
            slug="procrustes",
            name="Procrustes residual",
            range="0 (equal up to rotation and scale) to 1",
            meaning="Share of the variance that the best rotation of one onto the other leaves.",
            pitfall="Corrected for few rows, but still too low below two rows a dimension. It has an interval "
            "from four.",
            citation="Schönemann (1966). A Generalized Solution of the Orthogonal Procrustes Problem. "
            "Psychometrika 31, 1–10.",
        ),
    )
}
