"""Data sets over the API."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, File, Form, Request, UploadFile

from app.db.models import Dataset
from app.dependencies import ContextDep
from app.formats.quoting import Quoting
from app.parsers import parsing
from app.routes.api.schemas.datasets import DatasetOut, HubRequest, QuotingRequest
from app.services import datasets
from app.services.splits import read_division

router = APIRouter(prefix="/datasets", tags=["data sets"])


@router.get("", response_model=list[DatasetOut])
def list_datasets(context: ContextDep) -> Sequence[Dataset]:
    """All data sets, newest first."""
    return datasets.list_datasets(context)


@router.post("", status_code=201, response_model=DatasetOut)
@parsing
def create_dataset(
    request: Request,
    context: ContextDep,
    train: Annotated[UploadFile, File(description=".tsv, .csv or .jsonl, gzipped or not, or .parquet")],
    validation: Annotated[
        UploadFile | None, File(description="The same columns, other rows; left out only with `split_column`.")
    ] = None,
    test: Annotated[UploadFile | None, File(description="The same columns with labels; its scores are sealed.")] = None,
    name: Annotated[str | None, Form(max_length=200)] = None,
    split_column: Annotated[str, Form(description="Column of the train file that names the split of each row.")] = "",
    split_train: Annotated[str, Form(description="Its values of train rows, with commas between.")] = "train",
    split_validation: Annotated[str, Form(description="Its values of validation rows.")] = "validation",
    split_test: Annotated[
        str, Form(description="Its values of test rows; left out: `test`, where there are any.")
    ] = "",
    test_fraction: Annotated[float | None, Form(description="Of train rows to draw for testing; at most 0.5.")] = None,
    split_seed: Annotated[int, Form(description="Of the draw.")] = 0,
    quoting: Annotated[
        Quoting | None,
        Form(description="How the quotes of .tsv files are read; left out: they enclose cells where every one does."),
    ] = None,
) -> Dataset:
    """Upload train, validation and test rows.

    Instead of a test file, `test_fraction` draws rows: those that share a text stay together, and none shares a text
    with a validation row. Instead of a validation and a test file, `split_column` divides one file.
    """
    values = {"train": split_train, "validation": split_validation, "test": split_test}
    return datasets.create_dataset(
        context,
        train.file,
        train.filename or "",
        validation.file if validation else None,
        validation.filename or "" if validation else "",
        name,
        test=datasets.Upload(test.file, test.filename or "") if test else None,
        division=read_division(split_column, values, "" if test_fraction is None else test_fraction, split_seed),
        quoting=quoting,
    )


@router.post("/hub", status_code=201, response_model=DatasetOut)
def create_hub_dataset(context: ContextDep, request: HubRequest) -> Dataset:
    """Name a task of the Hub, where it can be reached."""
    return datasets.create_hub_dataset(context, request.name, request.test)


@router.get("/{dataset_id}", response_model=DatasetOut)
def show_dataset(context: ContextDep, dataset_id: str) -> Dataset:
    """One data set with its columns."""
    return datasets.get_dataset(context, dataset_id)


@router.put("/{dataset_id}/quoting", response_model=DatasetOut)
@parsing
def read_dataset(request: Request, context: ContextDep, dataset_id: str, given: QuotingRequest) -> Dataset:
    """Read the quotes of a data set's .tsv files in another way, as long as no experiment uses it."""
    return datasets.read_dataset(context, dataset_id, given.quoting)


@router.delete("/{dataset_id}", status_code=204)
def delete_dataset(context: ContextDep, dataset_id: str) -> None:
    """Delete a data set that no experiment uses."""
    datasets.delete_dataset(context, dataset_id)
