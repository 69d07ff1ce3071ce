"""Options of the regularizers: what they see, and the dials of each."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, FiniteFloat

from app.db.options.data import DataOptions
from app.db.options.option import BARCODE, FIXED, SEEN, SHRINKAGE, Behind, Option
from app.db.regularizer_options import (
    SEEING,
    SEEING_TOKENS,
    Bars,
    Layers,
    Points,
    Refresh,
    Regularizer,
    reading,
)
from isoscope.core.task import TaskKind
from isotropy.catalog.sources import ATIENZA_2019, KUDRIASHOV_2025, RUDMAN_2024

OF_ITS_PAPER_WORDS = "those of its paper"


def _each_once(layers: list[int]) -> list[int]:
    return sorted(set(layers))


def _something_to_add(weights: dict[Regularizer, float]) -> dict[Regularizer, float]:
    return {name: weight for name, weight in weights.items() if name is not Regularizer.NONE and weight}


def _by_steps(config: Mapping[str, Any]) -> bool:
    return config.get("shrinkage_refresh") == Refresh.STEPS


def _moving_average(config: Mapping[str, Any]) -> bool:
    return config.get("shrinkage_refresh") == Refresh.AVERAGE


LayerNumber = Annotated[int, Field(ge=1, le=1000)]
LayerNumbers = Annotated[list[LayerNumber], Field(min_length=1), AfterValidator(_each_once)]
Weight = Annotated[FiniteFloat, Field(ge=-1e6, le=1e6)]
Weights = Annotated[dict[Regularizer, Weight], AfterValidator(_something_to_add)]
Zeta = Annotated[FiniteFloat, Field(ge=0, le=1)]


ABOUT_LAMBDA = Behind(
    formula="loss + λ (1 − IsoScore★) for I-STAR; for each regularizer its penalty times λ",
    more="λ = 0 is plain training and is always run, to compare with. Values of one regularizer say nothing of those "
    "of another. The paper tries −5 to 5, and finds that less isotropy often helps.",
    source=RUDMAN_2024,
    measures=("isoscore_star",),
)
ABOUT_ZETA = Behind(
    formula="S = (1 − ζ) S_X + ζ S_S, S_X of the batch, S_S the shrinkage covariance",
    more="A batch has too few tokens to tell its covariance, so its score is noisy; S_S is of very many and steady. "
    "The gradient passes through S_X alone and shrinks by 1 − ζ: compare λ at one ζ only. The paper tries 0.2 to 0.8; "
    "its section 3 exchanges the weights, its algorithm and code are followed here.",
    source=f"{RUDMAN_2024} Algorithm 1.",
    measures=("isoscore_star",),
)


class RegularizerOptions(DataOptions):
    """What a regularizer sees and does."""

    layers: Annotated[
        LayerNumbers | Layers | None,
        Option(
            "Layers",
            "Layers that a regularizer sees: numbers from 1, all or last. Empty: those of its paper.",
            SEEN,
            several="choices of layers",
            none_means=OF_ITS_PAPER_WORDS,
            applies_to=SEEING,
            more="I-STAR sees all layers as one cloud, the bias-corrected form all of them one by one, CosReg and "
            "persistent entropy the last. Several are written 1, 6, 12.",
            source=f"{RUDMAN_2024} {KUDRIASHOV_2025}",
        ),
    ] = None
    points: Annotated[
        Points | None,
        Option(
            "Vectors",
            "Which vectors of a layer a regularizer sees.",
            SEEN,
            several="kinds of vectors",
            words={
                "": OF_ITS_PAPER_WORDS,
                Points.TOKENS: "all tokens",
                Points.SENTENCE: "the token that stands for the text",
                Points.MEAN: "the mean of each text’s tokens",
            },
            none_means=OF_ITS_PAPER_WORDS,
            applies_to=SEEING,
            more="Tokens of one text depend on each other, so the bias-corrected I-STAR cannot take them. The token "
            "that stands for a text is the first of an encoder and the last of a causal model.",
            source=f"Tokens: {RUDMAN_2024} One vector a text: {KUDRIASHOV_2025}",
        ),
    ] = None
    token_fraction: Annotated[
        FiniteFloat,
        Field(gt=0, le=1),
        Option(
            "Token fraction",
            "Fraction of a batch’s tokens that regularizers of tokens see, drawn anew for each batch.",
            SEEN,
            several="token fractions",
            applies_to=SEEING_TOKENS,
            of_tokens=True,
            more="The penalty’s time grows with the number of tokens: 0.25 makes it about four times as fast, and "
            "noisier.",
        ),
    ] = 1.0
    include_padding: Annotated[
        bool,
        Option(
            "Include padding",
            "Count padding among the tokens a regularizer sees, as I-STAR’s code does; to reproduce it.",
            SEEN,
            several="kinds of padding",
            applies_to=SEEING_TOKENS,
            of_tokens=True,
            more="Padding says nothing of a text, and how much there is depends on the longest of a batch.",
            source=RUDMAN_2024,
        ),
    ] = False
    shrinkage_refresh: Annotated[
        Refresh,
        Option(
            "Shrinkage refresh",
            "When the shrinkage covariance is estimated anew.",
            SHRINKAGE,
            several="shrinkage refreshes",
            words={
                Refresh.EPOCH: "at every epoch",
                Refresh.STEPS: "every N steps",
                Refresh.AVERAGE: "moving average of the batches",
            },
            applies_to=reading("shrinkage_refresh"),
            more="The model changes while it is trained, and with it S_S. The paper estimates it anew at each epoch; "
            "the moving average costs no further pass over the rows.",
            source=RUDMAN_2024,
        ),
    ] = Refresh.EPOCH
    shrinkage_points: Annotated[
        int,
        Field(ge=2, lt=2**31),
        Option(
            "Shrinkage points",
            "Tokens, counted once for each layer, from which the shrinkage covariance is estimated.",
            SHRINKAGE,
            several="numbers of shrinkage points",
            unit="point",
            applies_to=reading("shrinkage_points"),
            formula="S_S, the covariance of so many tokens over all layers",
            more="250,000 in the paper. Of a small data set there are all that it has.",
            source=RUDMAN_2024,
        ),
    ] = 250_000
    shrinkage_every: Annotated[
        int,
        Field(ge=1, le=10_000_000),
        Option(
            "Refresh every N steps",
            "Steps from one estimate of the shrinkage covariance to the next.",
            SHRINKAGE,
            several="shrinkage intervals",
            unit="step",
            slows=False,
            applies_to=reading("shrinkage_every"),
            needs=_by_steps,
            more="Read only with a refresh every N steps. Each estimate is a pass over rows.",
        ),
    ] = 500
    shrinkage_momentum: Annotated[
        FiniteFloat,
        Field(ge=0, lt=1),
        Option(
            "Shrinkage momentum",
            "Fraction of the old covariance that each step keeps, for the moving average.",
            SHRINKAGE,
            several="shrinkage momenta",
            slows=False,
            applies_to=reading("shrinkage_momentum"),
            needs=_moving_average,
            formula="S_S ← m S_S + (1 − m) S_X at each step, m this number",
            more="Read only with the moving average. 0.99 looks back over about 100 steps.",
        ),
    ] = 0.99
    entropy_bars: Annotated[
        Bars,
        Option(
            "Entropy bars",
            "Bars of the barcode whose entropy is raised: those between separate groups, or all.",
            BARCODE,
            several="kinds of bars",
            words={Bars.PROMINENT: "prominent, of separate groups", Bars.ALL: "all"},
            applies_to=reading("entropy_bars"),
            formula="H = −Σ p log p over the chosen bars, p = length / sum of lengths",
            more="Prominent bars are the longest by Atienza's rule; one Gaussian cloud has many too. Where a single "
            "bar is prominent there is no gradient; all bars have one from three vectors on.",
            source=f"{KUDRIASHOV_2025} The rule: {ATIENZA_2019}",
            measures=("prominent_bars", "persistent_entropy"),
        ),
    ] = Bars.PROMINENT
    entropy_by_label: Annotated[
        bool,
        Option(
            "Entropy by label",
            "Take a barcode of each class of a batch, so that classes are not moved towards one another.",
            BARCODE,
            several="kinds of grouping",
            words={"true": "each class of a batch", "false": "the whole batch"},
            applies_to=reading("entropy_by_label"),
            tasks=frozenset({TaskKind.CLASSIFICATION}),
            formula="Σ over classes of H",
            more="Of the whole batch, gaps between classes are made as even as those within them.",
            source=KUDRIASHOV_2025,
            measures=("persistent_entropy",),
        ),
    ] = True
    entropy_cluster_weight: Annotated[
        FiniteFloat,
        Field(ge=0, le=1e6),
        Option(
            "Entropy cluster weight",
            "Weight of the mean length of the other bars, which it shortens. 0, as in the paper, leaves it out.",
            BARCODE,
            several="cluster weights",
            applies_to=reading("entropy_cluster_weight"),
            formula="− λ H + w × mean length of the bars that are not chosen, w this number",
            more="It is in the units of the vectors, and shortens whatever the sign of λ.",
            source=KUDRIASHOV_2025,
        ),
    ] = 0.0
    fixed_regularizers: Annotated[
        Weights,
        Option(
            "Extra penalties",
            "Regularizers added to every run, the baseline too, each with this λ of its own.",
            FIXED,
            several="sets of extra penalties",
            slows=False,
            formula="loss + λ_1 × first penalty + λ_2 × second penalty",
            more="As for I-STAR swept over λ while CosReg stays at 1. Empty: not added.",
        ),
    ] = Field(default_factory=dict)
