"""Options of regularizers: the layers and vectors they see, and the settings of each."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, FiniteFloat

from app.db.options.data import DataOptions
from app.db.options.option import BARCODE, FIXED, SHRINKAGE, VECTORS, HelpFold, Option
from isoscope.core.formatting import short
from isoscope.core.task import TaskKind
from isotropy.catalog import REGULARIZERS, Layers, Regularizer, TokenPooling
from isotropy.catalog.sources import ATIENZA_2019, KUDRIASHOV_2025, RUDMAN_2024

# Regularizers that read hidden states.
STATE_READERS = frozenset(name for name, penalty in REGULARIZERS.items() if penalty.default_states is not None)
TOKEN_READERS = frozenset(name for name in STATE_READERS if REGULARIZERS[name].tokens)
REGULARIZER_NAMES: Mapping[Regularizer, str] = {
    Regularizer.NONE: "none",
    **{regularizer: penalty.name for regularizer, penalty in REGULARIZERS.items()},
}
PAPER_DEFAULT = "as in the paper"
ABOUT_LAMBDA = HelpFold(
    formula="loss + λ (1 − IsoScore★) for I-STAR; for each regularizer its penalty times λ",
    details="λ = 0 is plain training and always runs as the baseline. λ values are not comparable between "
    "regularizers. The paper tries −5 to 5 and finds that less isotropy often helps.",
    source=RUDMAN_2024,
    measures=("isoscore_star",),
)
ABOUT_ZETA = HelpFold(
    formula="S = (1 − ζ) S_X + ζ S_S, S_X of the batch, S_S the shrinkage covariance",
    details="A batch has too few tokens for a stable covariance. S_S comes from many and is stable. The gradient "
    "passes through S_X only and shrinks by 1 − ζ, so compare λ at the same ζ. The paper tries 0.2 to 0.8. Its section "
    "3 swaps the weights; Isoscope follows its algorithm and code.",
    source=f"{RUDMAN_2024} Algorithm 1.",
    measures=("isoscore_star",),
)


class Refresh(StrEnum):
    """When I-STAR's shrinkage covariance is re-estimated.

    At every epoch's start; every ``shrinkage_every`` steps; or at the start only, then a moving average of batches.
    """

    EPOCH = "epoch"
    STEPS = "steps"
    AVERAGE = "average"


class Bars(StrEnum):
    """Bars of a batch's barcode that enter the entropy: those of separate groups, or all."""

    PROMINENT = "prominent"
    ALL = "all"


def regularizers_with(option: str) -> frozenset[Regularizer]:
    return frozenset(name for name, penalty in REGULARIZERS.items() if option in penalty.options)


def loss_weights(regularizer: Regularizer, lam: float, fixed: Mapping[Regularizer, float]) -> dict[Regularizer, float]:
    """Return the λ of each regularizer in a run's loss, with those of ``fixed``; empty for plain training."""
    weights = dict(fixed)
    if regularizer is not Regularizer.NONE and lam != 0:
        weights[regularizer] = lam
    return weights


def describe_weights(weights: Mapping[str, float]) -> str:
    """Return regularizers with their λ: CosReg 1; I-STAR 0.5; none."""
    parts = [
        f"{REGULARIZER_NAMES[regularizer]} {short(weights[regularizer])}"
        for regularizer in Regularizer
        if regularizer in weights
    ]
    return "; ".join(parts) or REGULARIZER_NAMES[Regularizer.NONE]


def describe_regularizer(regularizer: Regularizer, lam: float) -> str:
    """Return a run's setting without seed and grid: I-STAR, λ = −1."""
    return f"{'baseline' if regularizer is Regularizer.NONE else REGULARIZER_NAMES[regularizer]}, λ = {short(lam)}"


LayerNumber = Annotated[int, Field(ge=1, le=1000)]
LayerNumbers = Annotated[list[LayerNumber], Field(min_length=1), AfterValidator(lambda numbers: sorted(set(numbers)))]
Weight = Annotated[FiniteFloat, Field(ge=-1e6, le=1e6)]
Weights = Annotated[
    dict[Regularizer, Weight],
    AfterValidator(
        lambda weights: {name: lam for name, lam in weights.items() if name is not Regularizer.NONE and lam}
    ),
]
Zeta = Annotated[FiniteFloat, Field(ge=0, le=1)]


class RegularizerOptions(DataOptions):
    """Options of regularizers."""

    layers: Annotated[
        LayerNumbers | Layers | None,
        Option(
            "Layers",
            "Layers the regularizer sees: numbers from 1, all, or last. Empty: as in its paper.",
            VECTORS,
            plural="choices of layers",
            none_means=PAPER_DEFAULT,
            applies_to=STATE_READERS,
            details="I-STAR sees all layers as one cloud, bias-corrected I-STAR sees them one by one, CosReg and "
            "persistent entropy see the last. List several as 1, 6, 12.",
            source=f"{RUDMAN_2024} {KUDRIASHOV_2025}",
        ),
    ] = None
    points: Annotated[
        TokenPooling | None,
        Option(
            "Vectors",
            "Vectors of a layer the regularizer sees.",
            VECTORS,
            plural="kinds of vectors",
            words={
                "": PAPER_DEFAULT,
                TokenPooling.TOKENS: "all tokens",
                TokenPooling.SENTENCE: "the token that stands for the text",
                TokenPooling.MEAN: "the mean of each text’s tokens",
            },
            none_means=PAPER_DEFAULT,
            applies_to=STATE_READERS,
            details="Tokens of one text depend on each other, so bias-corrected I-STAR cannot use them. The token that "
            "represents a text is the first of an encoder, the last of a causal model.",
            source=f"Tokens: {RUDMAN_2024} One vector a text: {KUDRIASHOV_2025}",
        ),
    ] = None
    token_fraction: Annotated[
        FiniteFloat,
        Field(gt=0, le=1),
        Option(
            "Token fraction",
            "Fraction of the batch’s tokens the regularizer sees, resampled for each batch.",
            VECTORS,
            plural="token fractions",
            applies_to=TOKEN_READERS,
            needs_tokens=True,
            details="Computing the penalty takes time in proportion to the tokens: 0.25 is about four times as fast, "
            "and noisier.",
        ),
    ] = 1.0
    include_padding: Annotated[
        bool,
        Option(
            "Include padding",
            "Include padding among the tokens, as the I-STAR code does. For reproduction only.",
            VECTORS,
            plural="kinds of padding",
            applies_to=TOKEN_READERS,
            needs_tokens=True,
            details="Padding carries no information, and its amount depends on the longest text of a batch.",
            source=RUDMAN_2024,
        ),
    ] = False
    shrinkage_refresh: Annotated[
        Refresh,
        Option(
            "Shrinkage refresh",
            "When to re-estimate the shrinkage covariance.",
            SHRINKAGE,
            plural="shrinkage refreshes",
            words={
                Refresh.EPOCH: "at every epoch",
                Refresh.STEPS: "every N steps",
                Refresh.AVERAGE: "moving average of the batches",
            },
            applies_to=regularizers_with("shrinkage_refresh"),
            details="S_S changes as the model trains. The paper re-estimates it every epoch. The moving average needs "
            "no extra pass over the rows.",
            source=RUDMAN_2024,
        ),
    ] = Refresh.EPOCH
    shrinkage_points: Annotated[
        int,
        Field(ge=2, lt=2**31),
        Option(
            "Shrinkage points",
            "Tokens, counted once per layer, for estimating the shrinkage covariance.",
            SHRINKAGE,
            plural="numbers of shrinkage points",
            unit="point",
            applies_to=regularizers_with("shrinkage_points"),
            formula="S_S = covariance of this many tokens over all layers",
            details="The paper uses 250,000. A small data set contributes all its tokens.",
            source=RUDMAN_2024,
        ),
    ] = 250_000
    shrinkage_every: Annotated[
        int,
        Field(ge=1, le=10_000_000),
        Option(
            "Refresh every N steps",
            "Steps between estimates of the shrinkage covariance.",
            SHRINKAGE,
            plural="shrinkage intervals",
            unit="step",
            applies_to=regularizers_with("shrinkage_every"),
            needs=lambda config: config.get("shrinkage_refresh") == Refresh.STEPS,
            details="Applies only with a refresh every N steps. Each estimate takes a pass over rows.",
        ),
    ] = 500
    shrinkage_momentum: Annotated[
        FiniteFloat,
        Field(ge=0, lt=1),
        Option(
            "Shrinkage momentum",
            "Fraction of the old covariance that the moving average keeps at each step.",
            SHRINKAGE,
            plural="shrinkage momenta",
            applies_to=regularizers_with("shrinkage_momentum"),
            needs=lambda config: config.get("shrinkage_refresh") == Refresh.AVERAGE,
            formula="S_S ← m S_S + (1 − m) S_X at each step, m this number",
            details="Applies only with the moving average. 0.99 averages over about 100 steps.",
        ),
    ] = 0.99
    entropy_bars: Annotated[
        Bars,
        Option(
            "Entropy bars",
            "Bars whose entropy is maximized: the prominent ones, or all.",
            BARCODE,
            plural="kinds of bars",
            words={Bars.PROMINENT: "prominent, of separate groups", Bars.ALL: "all"},
            applies_to=regularizers_with("entropy_bars"),
            formula="H = −Σ p log p over the chosen bars, p = length / sum of lengths",
            details="Prominent bars are the longest by Atienza's rule; even a Gaussian cloud has many. A single "
            "prominent bar gives no gradient. All bars give one from three vectors on.",
            source=f"{KUDRIASHOV_2025} The rule: {ATIENZA_2019}",
            measures=("prominent_bars", "persistent_entropy"),
        ),
    ] = Bars.PROMINENT
    entropy_by_label: Annotated[
        bool,
        Option(
            "Entropy by label",
            "Use one barcode per class of a batch, so that classes are not pulled together.",
            BARCODE,
            plural="kinds of grouping",
            words={"true": "each class of a batch", "false": "the whole batch"},
            applies_to=regularizers_with("entropy_by_label"),
            tasks=frozenset({TaskKind.CLASSIFICATION}),
            formula="Σ over classes of H",
            details="With one barcode for the whole batch, gaps between classes become as even as those within.",
            source=KUDRIASHOV_2025,
            measures=("persistent_entropy",),
        ),
    ] = True
    entropy_cluster_weight: Annotated[
        FiniteFloat,
        Field(ge=0, le=1e6),
        Option(
            "Entropy cluster weight",
            "Weight of a term that shortens the other bars. The paper uses 0, which turns it off.",
            BARCODE,
            plural="cluster weights",
            applies_to=regularizers_with("entropy_cluster_weight"),
            formula="− λ H + w × mean length of the bars that are not chosen, w this number",
            details="In units of the vectors. Shortens the bars whatever the sign of λ.",
            source=KUDRIASHOV_2025,
        ),
    ] = 0.0
    fixed_regularizers: Annotated[
        Weights,
        Option(
            "Extra penalties",
            "Regularizers added to every run, baseline included, each with its own λ.",
            FIXED,
            plural="sets of extra penalties",
            formula="loss + λ_1 × first penalty + λ_2 × second penalty",
            details="Example: sweep λ of I-STAR while CosReg stays at 1. Empty: none.",
        ),
    ] = Field(default_factory=dict)
