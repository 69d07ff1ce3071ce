"""The sample experiment, so that the first page ever opened shows real work arriving."""

from sqlalchemy import exists, select

from app.bundled import BUNDLED
from app.context import Context
from app.db.models import Dataset, DatasetOrigin, Embedding, Experiment
from app.installation import FILES
from app.services.datasets import create_dataset
from app.services.experiments import create_experiment
from app.services.sweeps import SweepRequest

FOLDER = FILES / "samples" / "agreement"
NAME = "Subject-verb agreement (synthetic)"


def queue_sample(context: Context) -> bool:
    """Queue the sample experiment if nothing is stored; whether it was."""
    with context.sessions() as session:
        if any(session.scalar(select(exists(select(table.id)))) for table in (Embedding, Dataset, Experiment)):
            return False
    with (FOLDER / "train.tsv").open("rb") as train, (FOLDER / "validation.tsv").open("rb") as validation:
        dataset = create_dataset(context, train, "train.tsv", validation, "validation.tsv", NAME, DatasetOrigin.SAMPLE)
    request = SweepRequest(
        name="Sample: does isotropy help agreement?",
        model=BUNDLED,
        dataset_id=dataset.id,
        text_columns=["sentence"],
        label_column="label",
        lambdas=[-1.0, 0.0, 1.0],
        seeds=[0, 1],
        epochs=None,
        max_steps=120,
        learning_rate=1e-4,
        max_length=32,
        shrinkage_points=50_000,
    )
    create_experiment(context, request)
    return True
