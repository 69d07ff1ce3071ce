"""Every training penalty: its term of the loss, its input, options and source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from isotropy.catalog.sources import ATIENZA_2019, GAO_2019, KUDRIASHOV_2025, RUDMAN_2024, SPECTRUM_CONTROL


class Regularizer(StrEnum):
    """A training penalty, or none."""

    NONE = "none"
    ISTAR = "istar"
    UNBIASED = "istar_unbiased"
    COSREG = "cosreg"
    ENTROPY = "entropy"
    SPECTRUM = "spectrum"


class TokenPooling(StrEnum):
    """The vectors of a layer that a regularizer sees: every token, one token per text, or the mean of its tokens.

    The one token is the one that the model's head reads: the first of an encoder, the last of a causal model.
    """

    TOKENS = "tokens"
    SENTENCE = "sentence"
    MEAN = "mean"


class Layers(StrEnum):
    """Layers that can be named without knowing how many a model has."""

    ALL = "all"
    LAST = "last"


@dataclass(frozen=True, kw_only=True, eq=False)
class RegularizerEntry:
    """A regularizer, in plain text with S_X as a formula, and how training makes and calls it."""

    slug: Regularizer
    name: str
    term: str  # What it adds to the loss, in short
    computed_on: str = "of the batches"  # Phrase for what the term is computed on
    text: str  # What it does, in a sentence or two
    formula: str  # The loss with it, in full
    details: str
    source: str
    measures: tuple[str, ...]  # Slugs of the measures that it moves
    color: str  # In every figure; with a contrast of at least 3 : 1 to white and to the dark theme
    # Default hidden states, as in its paper; None for the input embedding matrix.
    default_states: tuple[Layers, TokenPooling] | None
    # How it receives hidden states of several layers. One by one: the penalty is the mean over layers.
    layers: Literal["as one cloud", "as a list", "one by one"] = "one by one"
    tokens: bool = True  # Whether it may see all tokens; tokens of one text depend on each other
    # Whether it takes a mask [n] of its points as its second argument, so that no step waits for a GPU to drop padding.
    takes_mask: bool = False
    # Whether it can use the class of each point, if a run sets `entropy_by_label`.
    classes: bool = False
    # Its class, as "module:name". It takes lam, `options` and, if it sees hidden states, across_processes.
    make: str
    # The argument of its class that each training option sets, by the option's name; empty if training itself reads the
    # option. Options for the layers and vectors that it sees are not listed.
    options: Mapping[str, str] = field(default_factory=dict)


# All regularizers except none, in display order.
REGULARIZERS: dict[Regularizer, RegularizerEntry] = {
    penalty.slug: penalty
    for penalty in (
        RegularizerEntry(
            slug=Regularizer.ISTAR,
            name="I-STAR",
            term="λ (1 − IsoScore★)",
            text="Evens out the variance of tokens over directions, in all layers together. Shrinks the batch "
            "covariance toward that of many more tokens (ζ).",
            formula="loss + λ (1 − IsoScore★), IsoScore★ = (tr(S)² / tr(S S) − 1) / (d − 1), S = (1 − ζ) S_X + ζ S_S; "
            "S_X is the covariance of the batch’s tokens, S_S the shrinkage covariance",
            details="λ > 0 raises IsoScore★, λ < 0 lowers it. IsoScore★ is 1 if all d directions have the same "
            "variance, and 0 if one has all of it.",
            source=RUDMAN_2024,
            measures=("isoscore_star",),
            color="#14938d",
            default_states=(Layers.ALL, TokenPooling.TOKENS),
            layers="as one cloud",
            takes_mask=True,
            make="isotropy.regularizers.istar:IStar",
            options={
                "zeta": "zeta",
                "shrinkage_refresh": "",
                "shrinkage_points": "",
                "shrinkage_every": "",
                "shrinkage_momentum": "",
            },
        ),
        RegularizerEntry(
            slug=Regularizer.UNBIASED,
            name="bias-corrected I-STAR",
            term="λ (1 − bias-corrected IsoScore)",
            computed_on="of the batches, averaged over layers",
            text="Like I-STAR, on one vector per text and layer by layer, with a score that small batches do not bias. "
            "Has no ζ.",
            formula="loss + λ (1 − mean over layers of the bias-corrected IsoScore)",
            details="Estimates tr(S)² and tr(S S) without bias from the rows of a batch. This requires independent "
            "rows, so it uses one vector per text. Below about 8 rows per batch it is mostly noise.",
            source="See the measure. Neither paper uses it as a regularizer.",
            measures=("isoscore_unbiased",),
            color="#2f6fb3",
            default_states=(Layers.ALL, TokenPooling.MEAN),
            layers="as a list",
            tokens=False,
            make="isotropy.regularizers.unbiased_istar:UnbiasedIStar",
        ),
        RegularizerEntry(
            slug=Regularizer.COSREG,
            name="CosReg",
            term="λ · mean cosine",
            text="Lowers cosine similarity between tokens of the last layer. Mostly centers them; does little for "
            "isotropy.",
            formula="loss + λ (‖Σ u‖² − n) / n², u the n tokens divided by their lengths",
            details="λ > 0 pushes tokens apart, λ < 0 pulls them together. Mean cosine and IsoScore can rank clouds "
            "in opposite order.",
            source=f"{GAO_2019} Of a batch’s tokens as in {RUDMAN_2024}",
            measures=("mean_cosine",),
            color="#c26a00",
            default_states=(Layers.LAST, TokenPooling.TOKENS),
            takes_mask=True,
            make="isotropy.regularizers.cosreg:CosReg",
        ),
        RegularizerEntry(
            slug=Regularizer.ENTROPY,
            name="persistent entropy",
            term="−λ · H of the bars",
            text="Evens out the gaps between the texts of a batch, with one last-layer vector per text.",
            formula="loss − λ H, H = −Σ p log p, p = length of a bar / sum of the lengths",
            details="Bars are the edges of the minimum spanning tree of a batch. H is largest when the chosen bars "
            "have equal length, so λ > 0 evens out gaps. H grows with batch size and number of classes: keep both "
            "fixed when you compare λ.",
            source=f"{KUDRIASHOV_2025} Which bars: {ATIENZA_2019}",
            measures=("persistent_entropy", "barcode"),
            color="#8059bb",
            default_states=(Layers.LAST, TokenPooling.SENTENCE),
            classes=True,
            make="isotropy.regularizers.persistent_entropy:PersistentEntropy",
            options={"entropy_bars": "bars", "entropy_by_label": "", "entropy_cluster_weight": "cluster_weight"},
        ),
        RegularizerEntry(
            slug=Regularizer.SPECTRUM,
            name="spectrum control",
            term="λ (1 − evenness of the singular values)",
            computed_on="of the input embedding matrix",
            text="Evens out the singular values of the input embedding matrix. The paper trains factors of that matrix "
            "instead.",
            formula="loss + λ (1 − E), E = ((Σ s²)² / Σ s⁴ − 1) / (d − 1), s the singular values of the matrix",
            details="E is 1 if all singular values are equal. The paper trains factors of the matrix from the start, "
            "so do not report these numbers as its method.",
            source=SPECTRUM_CONTROL,
            measures=("spectrum",),
            color="#5d7f1f",
            default_states=None,
            make="isotropy.regularizers.spectrum_control:SpectrumControl",
        ),
    )
}
