"""The configuration of an encoding, stored in its row, and its limits."""

from typing import Annotated

from pydantic import AfterValidator, Field, FiniteFloat

from app.db.config import Seed
from app.db.options.option import Group, Option, Options
from app.db.states import Pooling
from isoscope.core.errors import InvalidError
from isotropy.catalog.sources import ETHAYARAJH_2019

# Layers times poolings of one encoding.
MAX_EMBEDDINGS = 500
# Size of all stored vectors of one encoding.
MAX_BYTES = 32 * 2**30
FLOAT_BYTES = 4

# 0 is the input embeddings, unlike ``LayerNumber``.
LayerOrInput = Annotated[int, Field(ge=0, le=1000)]

TEXTS = Group("Texts and model")
TEXT_SETTINGS = Group("Texts and model", "All other settings")


class EncodingConfig(Options):
    """Texts, model, and the layers and poolings that become embeddings."""

    model: Annotated[
        str,
        Field(max_length=200),
        Option(
            "Model",
            "A model folder on this machine, or a model name on the Hugging Face Hub. Encoder or causal.",
            TEXTS,
        ),
    ]
    text_columns: Annotated[
        list[str],
        Field(min_length=1, max_length=2),
        Option(
            "Text columns",
            "One column of texts, or two for text pairs.",
            TEXTS,
            details="Rows without text are skipped and counted.",
        ),
    ]
    label_column: Annotated[
        str | None,
        Option(
            "Label column",
            "Labels of the rows, for colors and for measures by class.",
            TEXTS,
            none_means="none",
            details="Classes, at most 200 for colors.",
            measures=("silhouette", "isoscore_by_label"),
        ),
    ] = None
    score_column: Annotated[
        str | None,
        Option(
            "Score of the pair",
            "Similarity of the two texts. Encodes each text by itself and ranks layers by the pairs.",
            TEXTS,
            none_means="none",
            details="Numbers, such as 0 and 1 for pairs that match or not.",
        ),
    ] = None
    match: Annotated[
        FiniteFloat | None,
        Option(
            "Minimum score of a match",
            "Pairs with at least this score match. A cutoff needs it, unless all scores are 0 or 1.",
            TEXTS,
            none_means="none",
        ),
    ] = None
    poolings: Annotated[
        list[Pooling],
        Field(min_length=1),
        AfterValidator(lambda poolings: [pooling for pooling in Pooling if pooling in poolings]),
        Option(
            "Pooling",
            "The vector that represents a text. Each pooling makes one embedding per layer.",
            TEXTS,
            words={
                Pooling.FIRST: "first token: [CLS] in BERT; in a causal model it sees no other token",
                Pooling.MEAN: "mean of all tokens, including [CLS] and [SEP]",
                Pooling.LAST: "last token: sees all others in a causal model; [SEP] in BERT",
            },
            formula="first: h_1; mean: Σ h_i / n; last: h_n, h_i the vector of the i-th of n tokens",
            details="The geometry depends on it. The first token’s vector summarizes the text only if the model was "
            "trained for that.",
        ),
    ] = Field([Pooling.MEAN])
    max_rows: Annotated[
        int | None,
        Field(ge=2, le=2**31),
        Option(
            "Max rows",
            "Maximum number of rows, sampled with the seed. Empty: all.",
            TEXTS,
            unit="row",
            none_means="all rows",
            details="Scores of n rows in d dimensions are biased unless n is many times d. The report shows by how "
            "much.",
            measures=("isoscore", "isoscore_unbiased"),
        ),
    ] = 2000
    layers: Annotated[
        list[LayerOrInput] | None,
        Field(min_length=1),
        AfterValidator(lambda layers: None if layers is None else sorted(set(layers))),
        Option(
            "Layers",
            "Layers to keep; 0 is the input embeddings. Empty: all.",
            TEXT_SETTINGS,
            none_means="all layers",
            details="List several as 0, 6, 12. Anisotropy grows with the layer in many models.",
            source=ETHAYARAJH_2019,
            measures=("mean_cosine", "isoscore"),
        ),
    ] = None
    max_length: Annotated[
        int,
        Field(ge=8, le=4096),
        Option(
            "Max length (tokens)",
            "Longer texts are truncated.",
            TEXT_SETTINGS,
            unit="token",
            details="At most what the model can read. The page counts the truncated texts.",
        ),
    ] = 128
    batch_size: Annotated[
        int,
        Field(ge=1, le=4096),
        Option("Batch size", "Texts per forward pass. Halved if memory runs out.", TEXT_SETTINGS, unit="text"),
    ] = 32
    seed: Annotated[Seed, Option("Seed", "Seed of the sampled rows.", TEXT_SETTINGS)] = 0


def require_within_limits(n_embeddings: int, size_bytes: int) -> None:
    if n_embeddings > MAX_EMBEDDINGS or size_bytes > MAX_BYTES:
        raise InvalidError(
            f"Expected at most {MAX_EMBEDDINGS} embeddings of {MAX_BYTES / 1e9:,.1f} GB together, got {n_embeddings:,} "
            f"of {size_bytes / 1e9:,.1f} GB. Choose fewer layers, poolings or rows.",
            "layers",
        )
