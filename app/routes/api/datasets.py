"""Data sets over the API."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, File, Form, Request, UploadFile

from app.db.models import Dataset
from app.dependencies import ContextDep
from app.parsers import parsing
from app.routes.api.schemas.datasets import DatasetOut, HubRequest
from app.services import datasets

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
    validation: Annotated[UploadFile, File(description="The same columns, other rows.")],
    name: Annotated[str | None, Form(max_length=200)] = None,
) -> Dataset:
    """Upload train and validation rows."""
    return datasets.create_dataset(
        context, train.file, train.filename or "", validation.file, validation.filename or "", name
    )


@router.post("/hub", status_code=201, response_model=DatasetOut)
def create_hub_dataset(context: ContextDep, request: HubRequest) -> Dataset:
    """Name a task of the Hub, where it can be reached."""
    return datasets.create_hub_dataset(context, request.name)


@router.get("/{dataset_id}", response_model=DatasetOut)
def show_dataset(context: ContextDep, dataset_id: str) -> Dataset:
    """One data set with its columns."""
    return datasets.get_dataset(context, dataset_id)


@router.delete("/{dataset_id}", status_code=204)
def delete_dataset(context: ContextDep, dataset_id: str) -> None:
    """Delete a data set that no experiment uses."""
    datasets.delete_dataset(context, dataset_id)
