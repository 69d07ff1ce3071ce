"""What is behind the name of each regularizer."""

from dataclasses import replace

from app.db.options.option import Help
from app.db.options.sources import GAO_2019, SPECTRUM_CONTROL
from app.db.regularizer_options import Regularizer
from app.regularizers import METHODS
from isotropy.catalog.sources import ATIENZA_2019, KUDRIASHOV_2025, RUDMAN_2024

BEHIND = {
    Regularizer.ISTAR: Help(
        formula="loss + λ (1 − IsoScore★), IsoScore★ = (tr(S)² / tr(S S) − 1) / (d − 1), S = (1 − ζ) S_X + ζ S_S; "
        "S_X is the covariance of the batch’s tokens, S_S the shrinkage covariance",
        more="λ > 0 raises IsoScore★, λ < 0 lowers it. IsoScore★ is 1 where all d directions have the same variance "
        "and 0 where one has all of it.",
        source=RUDMAN_2024,
        measures=("isoscore_star",),
    ),
    Regularizer.UNBIASED: Help(
        formula="loss + λ (1 − mean over layers of the bias-corrected IsoScore)",
        more="tr(S)² and tr(S S) are estimated without bias from the few rows of a batch. That holds for rows that do "
        "not depend on one another, so it sees one vector of each text and never tokens. Below about 8 rows a batch it "
        "is mostly noise.",
        source="The measure’s sources; as a regularizer it is in neither paper.",
        measures=("isoscore_unbiased",),
    ),
    Regularizer.COSREG: Help(
        formula="loss + λ (‖Σ u‖² − n) / n², u the n tokens divided by their lengths",
        more="λ > 0 turns tokens away from one another, λ < 0 towards one another. Mean cosine and IsoScore can order "
        "clouds the other way round.",
        source=f"{GAO_2019} Of a batch’s tokens as in {RUDMAN_2024}",
        measures=("mean_cosine",),
    ),
    Regularizer.ENTROPY: Help(
        formula="loss − λ H, H = −Σ p log p, p = length of a bar / sum of the lengths",
        more="Bars are the edges of the shortest tree that joins all vectors of a batch. H is greatest where the "
        "chosen ones have one length, so λ > 0 makes gaps even. It grows with the batch and with the number of "
        "classes: keep both when you compare λ.",
        source=f"{KUDRIASHOV_2025} Which bars: {ATIENZA_2019}",
        measures=("persistent_entropy", "barcode"),
    ),
    Regularizer.SPECTRUM: Help(
        formula="loss + λ (1 − E), E = ((Σ s²)² / Σ s⁴ − 1) / (d − 1), s the singular values of the matrix",
        more="E is 1 where all singular values are equal. This is not the paper’s method, which trains factors of the "
        "matrix from the start: do not report its numbers as theirs.",
        source=SPECTRUM_CONTROL,
        measures=("spectrum",),
    ),
}

REGULARIZERS = {name: replace(BEHIND[name], text=method.help) for name, method in METHODS.items()}
