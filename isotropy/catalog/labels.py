"""Measures of labeled classes."""

from functools import partial

from isotropy.catalog.measure import Measure, between
from isotropy.catalog.sources import HRUSCHKA_2006, MICKUS_2024, ROUSSEEUW_1987, RUDMAN_2022

_measure = partial(Measure, group="labels")
MEASURES = (
    _measure(
        slug="silhouette",
        name="Silhouette",
        symbol="s",
        range="[−1, 1]",
        bounds=between(-1, 1),
        formula="mean of (b − a) / max(a, b), mean distances a to the own class, b to the nearest other; 0 if alone",
        meaning="Whether points are nearer to their own class than to the next: 1 separated, 0 mixed, below 0 "
        "misplaced.",
        pitfall="Clusters conflict with isotropy (Mickus et al.): do not expect both.",
        citation=f"{ROUSSEEUW_1987} On isotropy: {MICKUS_2024}",
        higher_means="neither",
        shown_in=("layers", "lab", "results"),
    ),
    _measure(
        slug="simplified_silhouette",
        variant_of="silhouette",
        name="Simplified silhouette",
        symbol="s̃",
        range="[−1, 1]",
        bounds=between(-1, 1),
        formula="mean of (b − a) / max(a, b), distances a to the own centroid, b to the nearest other; a = 0 if alone",
        meaning="The silhouette, with distances to class means.",
        pitfall="Usually above the silhouette: a centroid is nearer than its points, most of all in small classes.",
        citation=f"{HRUSCHKA_2006} After {ROUSSEEUW_1987}",
        higher_means="neither",
    ),
    _measure(
        slug="isoscore_by_label",
        name="IsoScore by label",
        symbol="mean IsoScore(X_c)",
        value="mean over labels",
        range="[0, 1]",
        bounds=between(0, 1),
        formula="mean of the IsoScore of the points X_c of every class c of at least 4, each with the same weight",
        meaning="How evenly variance is spread within classes, ignoring distances between them.",
        pitfall=(
            "Biased low for small classes: n_c ≤ d points cannot exceed (n_c − 2)/(d − 1). Compare classes of equal "
            "size, or the bias-corrected values."
        ),
        citation=f"{RUDMAN_2022} On classes: {MICKUS_2024}",
        higher_means="more isotropic",
    ),
)
