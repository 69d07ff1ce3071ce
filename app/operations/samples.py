"""The sample: the project's own sentences, a sweep on them, and their embeddings by the bundled encoder."""

from sqlalchemy import exists, select

from app.context import Context
from app.core.process import BUNDLED_MODEL, FILES
from app.db.encoding import EncodingConfig
from app.db.models import Dataset, DatasetOrigin, Embedding, Encoding, Experiment
from app.embeddings.encodings import create_encoding_of_dataset, launch_encoding
from app.storage import Incoming
from app.training.datasets import create_dataset
from app.training.experiments import create_experiment
from app.training.sweeps import SweepRequest
from isotropy.catalog import Regularizer

FOLDER = FILES / "samples" / "agreement"
DATASET_NAME = "Subject-verb agreement (synthetic)"
TEXT_COLUMN, LABEL_COLUMN = "sentence", "subject"

SWEEP_NAME = "Sample: does isotropy help classify sentences?"
EMBEDDING_NAME = "Sample sentences"
ENCODING = EncodingConfig(
    model=BUNDLED_MODEL, text_columns=[TEXT_COLUMN], label_column=LABEL_COLUMN, layers=[3, 6], max_rows=1000,
    max_length=32,
)  # fmt: skip
"""The middle and the last layer; 1,000 sentences are encoded and measured in seconds."""


def launch_samples(context: Context) -> bool:
    """Launch both samples if the database is empty; return whether they were launched."""
    if any(context.scalar(select(exists(select(table.id)))) for table in (Embedding, Encoding, Dataset, Experiment)):
        return False
    # The embedding first: it takes seconds, and its report can be read while the sweep trains.
    launch_sample_encoding(context)
    launch_sample_sweep(context)
    return True


def launch_sample_sweep(context: Context) -> Experiment:
    return create_experiment(context, build_sample_sweep(get_sample_dataset(context)))


def build_sample_sweep(dataset: Dataset) -> SweepRequest:
    """Return the sample sweep, tuned so that a run takes about twenty seconds on one core.

    In ``max_steps`` steps a model learns the column ``subject``. With fewer, some seeds stay near chance; other columns
    need more than 80. CosReg at λ = -1 makes all vectors of the last layer equal, so all rows get the same class.
    """
    return SweepRequest(
        name=SWEEP_NAME,
        model=BUNDLED_MODEL,
        dataset_id=dataset.id,
        text_columns=[TEXT_COLUMN],
        label_column=LABEL_COLUMN,
        regularizers=[Regularizer.COSREG],
        lambdas=[-1.0, -0.3, 0.0, 0.3, 1.0],
        seeds=[0, 1, 2],
        epochs=None,
        max_steps=36,
        learning_rate=1.5e-4,
        warmup=0.1,
        max_length=32,
        validation_rows=300,
        probe_every=18,
    )


def launch_sample_encoding(context: Context) -> Encoding:
    """Encode and measure the sample's train sentences. Earlier encodings of them stay."""
    draft = create_encoding_of_dataset(context, get_sample_dataset(context).id, "train", EMBEDDING_NAME)
    return launch_encoding(context, draft.id, ENCODING)


def get_sample_dataset(context: Context) -> Dataset:
    """Return the sample's data set; create it if it was deleted."""
    query = select(Dataset).where(Dataset.origin == DatasetOrigin.SAMPLE).order_by(Dataset.created_at.desc())
    if (dataset := context.scalar(query.limit(1))) is not None:
        return dataset
    with (FOLDER / "train.tsv").open("rb") as train, (FOLDER / "validation.tsv").open("rb") as validation:
        files = Incoming(train, "train.tsv"), Incoming(validation, "validation.tsv")
        return create_dataset(context, *files, DATASET_NAME, DatasetOrigin.SAMPLE)
