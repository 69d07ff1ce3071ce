"""The request that launches an experiment or a run once more, here or on another Isoscope; as YAML, too."""

from collections.abc import Iterable, Sequence
from typing import Any

from app.db.config import TrainingOptions
from app.db.models import Dataset, Experiment, Run
from app.db.options.option import options_of
from app.db.regularizer_options import Regularizer
from app.db.reported_config import AnyConfig
from app.services.studies import StudyRequest
from app.services.sweeps import SweepRequest
from isoscope.core.errors import ConflictError
from isoscope.core.formatting import one_line
from isoscope.files.yaml_document import write_yaml

Request = SweepRequest | StudyRequest
FOUND_OUT = {"paused", "over", "why"}
"""What is known of a search only after it was launched."""

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
ORDER = (*_FIRST, *(name for name in SweepRequest.model_fields if name not in (*_FIRST, "grid")), "grid", "search")
"""What a sweep is of, as the form asks for it; then its settings; the grid last, or what is searched."""
HEADING = "# For Isoscope, launched by: isoscope sweep FILE. What is not said here has its default.\n"


def request_of(experiment: Experiment) -> Request:
    """Return a request that means the same runs, read off those that there are; of a search, one that searches again.

    Raises ConflictError where no request means them: those of a user's own script.
    """
    _require_settings(experiment)
    shared = _options(experiment.config) | {
        "name": experiment.name,
        "dataset_id": experiment.dataset_id,
        "seeds": _each_once(run.seed for run in experiment.runs),
    }
    if experiment.study is not None:
        search = experiment.study.model_dump(exclude=FOUND_OUT)
        return StudyRequest.model_validate(shared | {"search": search})
    zetas = _each_once(run.zeta for run in experiment.runs)
    return SweepRequest.model_validate(shared | _swept(experiment.runs) | {"zetas": zetas, "grid": experiment.grid})


def request_of_run(run: Run) -> SweepRequest:
    """Return a request that means one run, beside its baseline; raises ConflictError like ``request_of``."""
    _require_settings(run.experiment)
    own = {"dataset_id": run.experiment.dataset_id, "zetas": [run.zeta], "seeds": [run.seed]}
    return SweepRequest.model_validate(_options(run.config) | _swept([run]) | own)


def plain(request: Request) -> dict[str, Any]:
    """Return what a request says that is not said by leaving it out, in the form's order, as JSON holds it."""
    said = request.model_dump(mode="json", exclude_defaults=True)
    if Regularizer.NONE in said.get("regularizers", []):
        said["regularizers"] = [one for one in said["regularizers"] if one != Regularizer.NONE]
    if isinstance(request, StudyRequest):
        said.setdefault("search", {})
    return {name: said[name] for name in ORDER if name in said}


def yaml_of(request: Request, dataset: Dataset) -> str:
    """Return a request as YAML: what differs from the defaults, with what it means."""
    meanings = {name: option.text for name, option in options_of(type(request)).items()}
    # A grid's explanation is of the API; in a file the names of its settings say it.
    told = {
        "dataset_id": one_line(dataset.name),
        "grid": "Every combination of these is a setting.",
        "search": "Ranges in which the best lambda and zeta are searched; empty: from -1 to 1.",
    }
    return HEADING + write_yaml(plain(request), meanings | told)


def _require_settings(experiment: Experiment) -> None:
    if experiment.logged:
        raise ConflictError(
            "A script logged these runs, and only the script knows all their settings. Run the script again."
        )


def _options(config: AnyConfig) -> dict[str, Any]:
    return {name: value for name, value in config.told().items() if name in TrainingOptions.model_fields}


def _swept(runs: Sequence[Run]) -> dict[str, Any]:
    """What is swept over; of baselines alone lambda = 0."""
    swept = [run for run in runs if run.regularizer is not Regularizer.NONE]
    lambdas = sorted({run.lam for run in swept}) or [0.0]
    return {"regularizers": _each_once(run.regularizer for run in swept), "lambdas": lambdas}


def _each_once(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
