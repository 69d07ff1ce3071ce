"""Pages that list, upload, show and delete data sets."""

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, File, Form, Request, Response, UploadFile

from app.context import Context
from app.core.names import require_name
from app.db.hub_tasks import TASKS, HubName
from app.training import datasets
from app.training.columns import propose_task
from app.training.dataset_figures import dataset_figures, find_trivial_score
from app.training.datasets import read_division
from app.web.dependencies import ContextDep
from app.web.responses import FileKind, figure_file, redirect_to, render
from app.web.templating import confirm_deletion
from app.web.uploads import chosen_file, in_parser_slot
from isoscope.core.errors import ConflictError, InvalidError, IsoscopeError
from isoscope.files.compressed import GZIP_SUFFIX
from isoscope.files.division import SPLITS
from isoscope.files.text import Quoting
from isoscope.files.upload_formats import Role, suffixes

router = APIRouter(prefix="/datasets")

OptionalFile = Annotated[UploadFile | str | None, File()]
FormText = Annotated[str, Form()]


@dataclass(frozen=True)
class DivisionForm:
    """The fields that split one file."""

    split_column: FormText = ""
    split_train: FormText = "train"
    split_validation: FormText = "validation"
    split_test: FormText = ""
    validation_fraction: FormText = ""
    test_fraction: FormText = ""
    split_seed: FormText = "0"


NO_DIVISION = DivisionForm()


@router.get("")
def show_datasets(request: Request, context: ContextDep) -> Response:
    return _list_page(request, context)


@router.post("")
@in_parser_slot
def upload_dataset(
    request: Request,
    context: ContextDep,
    train: OptionalFile = None,
    validation: OptionalFile = None,
    test: OptionalFile = None,
    form: Annotated[DivisionForm, Depends()] = NO_DIVISION,
    name: Annotated[str, Form()] = "",
    quoting: Annotated[Quoting | Literal[""], Form()] = "",
) -> Response:
    try:
        if (train_file := chosen_file(train)) is None:
            raise InvalidError("Expected a train file: choose one.", "train")
        split_values = {"train": form.split_train, "validation": form.split_validation, "test": form.split_test}
        fractions = {"test": form.test_fraction.strip(), "validation": form.validation_fraction.strip()}
        dataset = datasets.create_dataset(
            context,
            train_file,
            chosen_file(validation),
            require_name(name, train_file.filename),
            test=chosen_file(test),
            division=read_division(form.split_column, split_values, fractions, form.split_seed.strip()),
            quoting=quoting or None,
        )
    except IsoscopeError as error:
        return _list_page(request, context, error, name, form, quoting)
    return redirect_to(f"/datasets/{dataset.id}")


@router.post("/hub")
def add_hub_dataset(context: ContextDep, hub_name: Annotated[HubName, Form()]) -> Response:
    return redirect_to(f"/datasets/{datasets.create_hub_dataset(context, hub_name).id}")


@router.get("/{dataset_id}")
def show_dataset(request: Request, context: ContextDep, dataset_id: str) -> Response:
    return _page(request, context, dataset_id)


@router.post("/{dataset_id}/quoting")
@in_parser_slot
def change_quoting(
    request: Request, context: ContextDep, dataset_id: str, quoting: Annotated[Quoting, Form()]
) -> Response:
    try:
        datasets.change_quoting(context, dataset_id, quoting)
    except (ConflictError, InvalidError) as error:
        return _page(request, context, dataset_id, error)
    return redirect_to(f"/datasets/{dataset_id}")


@router.post("/{dataset_id}/counts")
@in_parser_slot
def count_rows(request: Request, context: ContextDep, dataset_id: str) -> Response:
    datasets.add_missing_counts(context, dataset_id)
    return redirect_to(f"/datasets/{dataset_id}")


@router.get("/{dataset_id}/figures/{slug}.{kind}")
def show_figure(context: ContextDep, dataset_id: str, slug: str, kind: FileKind) -> Response:
    return figure_file(dataset_figures(datasets.get_dataset(context, dataset_id)), slug, kind)


@router.get("/{dataset_id}/delete")
def confirm_delete(request: Request, context: ContextDep, dataset_id: str) -> Response:
    dataset = datasets.get_dataset(context, dataset_id)
    loss, back = "Deletes its files and the description of its columns.", f"/datasets/{dataset_id}"
    used_by = datasets.list_experiments_using(context, dataset_id)
    return confirm_deletion(request, "data", dataset.name, loss, back, used_by=used_by)


@router.post("/{dataset_id}/delete")
def delete(context: ContextDep, dataset_id: str) -> Response:
    datasets.delete_dataset(context, dataset_id)
    return redirect_to("/datasets")


def _page(request: Request, context: Context, dataset_id: str, problem: IsoscopeError | None = None) -> Response:
    dataset = datasets.get_dataset(context, dataset_id)
    proposal = propose_task(dataset.hub_name, dataset.columns)
    # The rows of the Hub or of earlier versions were not counted.
    is_counted = any(column.lengths is not None or column.train_counts is not None for column in dataset.columns)
    template_values = {
        "dataset": dataset,
        "proposal": proposal,
        "figures": dataset_figures(dataset),
        "trivial_score": find_trivial_score(dataset, proposal),
        "countable": dataset.train_sha256 is not None and not is_counted,
        "quotes": [
            (getattr(dataset, f"{split}_filename"), dataset.quoting_of(split))
            for split in SPLITS
            if split in (dataset.quoting or {})
        ],
    }
    return render(request, "training/dataset.html", template_values, problem)


def _list_page(
    request: Request,
    context: Context,
    problem: IsoscopeError | None = None,
    name: str = "",
    division_form: DivisionForm = NO_DIVISION,
    quoting: str = "",
) -> Response:
    template_values = {
        "datasets": [
            (dataset, propose_task(dataset.hub_name, dataset.columns)) for dataset in datasets.list_datasets(context)
        ],
        "hub_tasks": TASKS,
        "suffixes": [*suffixes(Role.ROWS), GZIP_SUFFIX],
        "max_bytes": context.settings.max_dataset_bytes,
        "name": name,
        "division": division_form,
        "quoting": quoting,
    }
    return render(request, "training/datasets.html", template_values, problem)
