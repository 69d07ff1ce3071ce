"""Data sets over the API."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, File, Form, Request, UploadFile
from pydantic import Field, StrictBool, computed_field

from app.db.hub_tasks import HubName
from app.db.models import Dataset, DatasetOrigin
from app.training import datasets
from app.training.columns import TaskProposal, propose_task
from app.training.datasets import read_division
from app.web.dependencies import ContextDep, Row
from app.web.uploads import in_parser_slot, to_incoming
from isoscope.files.columns import Column
from isoscope.files.division import Division
from isoscope.files.strict import Strict
from isoscope.files.text import Quoting
from isoscope.files.upload_formats import row_suffixes


class DatasetOut(Row):
    """A data set and its columns."""

    id: str
    name: str
    origin: DatasetOrigin
    hub_name: HubName | None = Field(description="Name of the Hub's task; null for an upload.")
    train_filename: str | None
    validation_filename: str | None
    test_filename: str | None
    n_train: int | None
    n_validation: int | None
    n_test: int | None = Field(description="Null without a test split. Scores on these rows are sealed.")
    division: Division | None = Field(description="How one file was split; null if it was not.")
    columns: list[Column]
    quoting: dict[str, Quoting] | None = Field(
        description="How quotes are read in the .tsv files that have any, by split. Null for data sets uploaded before "
        "Isoscope detected quotes: they are read as text."
    )
    created_at: datetime

    @computed_field(description="Task that fits the columns; null if none.")  # type: ignore[prop-decorator]
    @property
    def proposal(self) -> TaskProposal | None:
        return propose_task(self.hub_name, self.columns)


class QuotingRequest(Strict):
    """How to read quotes."""

    quoting: Quoting


class HubRequest(Strict):
    """A task of the Hub by its name."""

    name: HubName
    test: StrictBool | None = Field(
        None, description="Whether to score its test split. Null: if it has labels. True is refused if it has none."
    )


router = APIRouter(prefix="/datasets", tags=["data sets"])


@router.get("", response_model=list[DatasetOut])
def list_datasets(context: ContextDep) -> Sequence[Dataset]:
    """All data sets, newest first."""
    return datasets.list_datasets(context)


@router.post("", status_code=201, response_model=DatasetOut)
@in_parser_slot
def create_dataset(
    request: Request,
    context: ContextDep,
    train: Annotated[UploadFile, File(description=row_suffixes())],
    validation: Annotated[
        UploadFile | None,
        File(description="Same columns as the train file. Optional with `validation_fraction` or `split_column`."),
    ] = None,
    test: Annotated[
        UploadFile | None, File(description="Same columns, with labels. Its scores stay sealed until opened.")
    ] = None,
    name: Annotated[str | None, Form(max_length=200)] = None,
    split_column: Annotated[str, Form(description="Column of the train file that names the split of each row.")] = "",
    split_train: Annotated[str, Form(description="Values of train rows, separated by commas.")] = "train",
    split_validation: Annotated[str, Form(description="Values of validation rows.")] = "validation",
    split_test: Annotated[str, Form(description="Values of test rows. Default: `test`, if any.")] = "",
    validation_fraction: Annotated[
        float | None, Form(description="Fraction of train rows to draw for validation, at most 0.5.")
    ] = None,
    test_fraction: Annotated[
        float | None, Form(description="Fraction of train rows to draw for testing, at most 0.5.")
    ] = None,
    split_seed: Annotated[int, Form(description="Seed of the draws.")] = 0,
    quoting: Annotated[
        Quoting | None,
        Form(description="How to read quotes in .tsv files. Leave it out to detect whether they enclose cells."),
    ] = None,
) -> Dataset:
    """Upload a file for each split, or one to divide by a column or by fractions, which keep equal texts together."""
    split_values = {"train": split_train, "validation": split_validation, "test": split_test}
    fractions = {"test": test_fraction, "validation": validation_fraction}
    return datasets.create_dataset(
        context,
        to_incoming(train),
        to_incoming(validation) if validation else None,
        name,
        test=to_incoming(test) if test else None,
        division=read_division(split_column, split_values, fractions, split_seed),
        quoting=quoting,
    )


@router.post("/hub", status_code=201, response_model=DatasetOut)
def create_hub_dataset(context: ContextDep, request: HubRequest) -> Dataset:
    """Add a task of the Hub."""
    return datasets.create_hub_dataset(context, request.name, request.test)


@router.get("/{dataset_id}", response_model=DatasetOut)
def show_dataset(context: ContextDep, dataset_id: str) -> Dataset:
    """One data set with its columns."""
    return datasets.get_dataset(context, dataset_id)


@router.put("/{dataset_id}/quoting", response_model=DatasetOut)
@in_parser_slot
def read_dataset(request: Request, context: ContextDep, dataset_id: str, body: QuotingRequest) -> Dataset:
    """Change how quotes in a data set's .tsv files are read, unless an experiment uses it."""
    return datasets.change_quoting(context, dataset_id, body.quoting)


@router.delete("/{dataset_id}", status_code=204)
def delete_dataset(context: ContextDep, dataset_id: str) -> None:
    """Delete a data set that no experiment uses."""
    datasets.delete_dataset(context, dataset_id)
