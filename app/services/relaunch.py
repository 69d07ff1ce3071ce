"""The request that launches an experiment's runs once more, here or on another Isoscope; as YAML, too."""

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from app.db.config import TrainingOptions
from app.db.models import Dataset, Experiment
from app.db.penalty import Regularizer
from app.errors import ConflictError
from app.formats.yaml_document import write_yaml
from app.services.names import one_line
from app.services.sweeps import SweepRequest

_FIRST = (
    "name",
    "dataset_id",
    "task",
    "text_columns",
    "label_column",
    "metric",
    "model",
    "regularizers",
    "lambdas",
    "zetas",
    "seeds",
)
ORDER = (*_FIRST, *(name for name in SweepRequest.model_fields if name not in (*_FIRST, "grid")), "grid")
"""What a sweep is of, as the form asks for it; then its settings, the grid last."""
HEADING = "# A sweep for Isoscope, launched by: isoscope sweep FILE. What is not said here has its default.\n"


def request_of(experiment: Experiment) -> SweepRequest:
    """Return a request that means the same runs, read off those that there are.

    Raises ConflictError where no request means them: those of a user's own script, and those of a search.
    """
    if experiment.study is not None:
        raise ConflictError(
            "A search chose the runs of this experiment one after another, so no request lists them. Start a search."
        )
    swept = [run for run in experiment.runs if run.regularizer is not Regularizer.NONE]
    lambdas = {"lambdas": sorted({run.lam for run in swept})} if swept else {}
    options = {name: value for name, value in experiment.config.items() if name in TrainingOptions.model_fields}
    try:
        return SweepRequest.model_validate(
            options
            | lambdas
            | {
                "name": experiment.name,
                "dataset_id": experiment.dataset_id,
                "regularizers": _each_once(run.regularizer for run in swept),
                "zetas": _each_once(run.zeta for run in experiment.runs),
                "seeds": _each_once(run.seed for run in experiment.runs),
                "grid": experiment.grid,
            }
        )
    except ValidationError as error:
        raise ConflictError(
            "The runs of this experiment were logged by a script of its own, so no request launches them here."
        ) from error


def plain(request: SweepRequest) -> dict[str, Any]:
    """Return what a request says that is not said by leaving it out, in the form's order, as JSON holds it."""
    swept = [one for one in request.regularizers if one is not Regularizer.NONE]
    said = request.model_copy(update={"regularizers": swept}).model_dump(mode="json", exclude_defaults=True)
    return {name: said[name] for name in ORDER if name in said}


def yaml_of(request: SweepRequest, dataset: Dataset) -> str:
    """Return a request as YAML: what differs from the defaults, with what it means."""
    meanings = {name: field.description for name, field in SweepRequest.model_fields.items() if field.description}
    # A grid's explanation is of the API; in a file the names of its settings say it.
    comments = meanings | {"dataset_id": one_line(dataset.name), "grid": "Every combination of these is a setting."}
    return HEADING + write_yaml(plain(request), comments)


def _each_once(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
