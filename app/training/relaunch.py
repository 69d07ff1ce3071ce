"""Requests that launch an experiment or run again, and snippets for forms: curl, command line, Python, YAML."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeVar

from fastapi import Request
from pydantic import ValidationError

from app.context import Context
from app.core.settings import Settings
from app.core.validation_messages import list_messages
from app.db.config import TrainingOptions
from app.db.encoding import EncodingConfig
from app.db.models import Dataset, Experiment, Run
from app.db.options.option import collect_options
from app.db.reported_config import AnyConfig
from app.db.study import Search
from app.training.experiments import StudyRequest
from app.training.sweeps import SweepRequest
from isoscope.core.errors import ConflictError, FieldError, InvalidError, combine_errors
from isoscope.core.formatting import one_line
from isoscope.files.yaml_document import write_yaml
from isotropy.catalog import Regularizer

LaunchRequest = SweepRequest | StudyRequest
RequestT = TypeVar("RequestT", bound=TrainingOptions)
SEARCH_STATE_FIELDS = {"paused", "over", "why"}

_FIRST_FIELDS = (
    "name", "dataset_id", "task", "text_columns", "label_column", "metric", "model", "regularizers", "lambdas", "zetas",
    "seeds",
)  # fmt: skip
FIELD_ORDER = (
    *_FIRST_FIELDS,
    *(name for name in SweepRequest.model_fields if name not in (*_FIRST_FIELDS, "grid")),
    "grid",
    "search",
)
"""The form's first fields, then training options, then the grid or the search."""
HEADING = "# Launch with: isoscope sweep FILE. Options that are not listed have their defaults.\n"


def request_of(experiment: Experiment) -> LaunchRequest:
    """Return a request that launches the same runs; raise ConflictError for runs of a user's script."""
    settings = _collect_settings(experiment, experiment.config, experiment.runs) | {"name": experiment.name}
    if experiment.study is None:
        return SweepRequest.model_validate(settings | {"grid": experiment.grid})
    search = experiment.study.model_dump(exclude=SEARCH_STATE_FIELDS)
    options = {name: value for name, value in settings.items() if name in StudyRequest.model_fields}
    return StudyRequest.model_validate(options | {"search": search})


def request_of_run(run: Run) -> SweepRequest:
    return SweepRequest.model_validate(_collect_settings(run.experiment, run.config, [run]))


def to_document(request: LaunchRequest) -> dict[str, Any]:
    """Return a request's non-default values as JSON, in the order of the form."""
    settings = request.model_dump(mode="json", exclude_defaults=True)
    if Regularizer.NONE in settings.get("regularizers", []):
        settings["regularizers"] = [name for name in settings["regularizers"] if name != Regularizer.NONE]
    if isinstance(request, StudyRequest):
        settings.setdefault("search", {})
    return {name: settings[name] for name in FIELD_ORDER if name in settings}


def to_yaml(request: LaunchRequest, dataset: Dataset) -> str:
    meanings = {name: option.text for name, option in collect_options(type(request)).items()}
    # Override the options' texts, which describe the form and the API.
    explanations = {
        "dataset_id": one_line(dataset.name),
        "grid": "Every combination of these values is a setting.",
        "search": "Ranges in which the best lambda and zeta are searched; empty: from -1 to 1.",
    }
    return HEADING + write_yaml(to_document(request), meanings | explanations)


def read_document(request_type: type[RequestT], document: Mapping[str, Any]) -> RequestT:
    """Validate a document as a sweep or search; raise InvalidError with every invalid field."""
    fields = (*request_type.model_fields, *Search.model_fields)
    try:
        return request_type.model_validate(document)
    except ValidationError as error:
        field_errors = []
        for sentence, path in list_messages(error.errors(), fields):
            names: list[str | None] = [str(part) for part in path] or [None]
            field_errors.append(FieldError(names[-1] if names[0] == "search" else names[0], sentence))
        raise combine_errors(field_errors) from error


def valid_settings(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a valid document with its defaults, or an invalid one without the invalid fields."""
    model = StudyRequest if "search" in document else SweepRequest
    try:
        return model.model_validate(document).model_dump(mode="json")
    except ValidationError as error:
        invalid_names = {problem["loc"][0] for problem in error.errors() if problem["loc"]}
        return {name: value for name, value in document.items() if name not in invalid_names}


def _collect_settings(experiment: Experiment, config: AnyConfig, runs: Sequence[Run]) -> dict[str, Any]:
    """Return the options and swept values of runs. The only lambda is 0 if all are baselines."""
    if experiment.logged:
        raise ConflictError(
            "A script logged these runs, and only the script knows all their settings. Run the script again."
        )
    swept = [run for run in runs if run.regularizer is not Regularizer.NONE]
    return {name: value for name, value in config.dump().items() if name in TrainingOptions.model_fields} | {
        "dataset_id": experiment.dataset_id,
        "regularizers": list(dict.fromkeys(run.regularizer for run in swept)),
        "lambdas": sorted({run.lam for run in swept}) or [0.0],
        "zetas": list(dict.fromkeys(run.zeta for run in runs)),
        "seeds": list(dict.fromkeys(run.seed for run in runs)),
    }


AUTHORIZATION_HEADER = '-H "Authorization: Bearer $ISOSCOPE_ACCESS_TOKEN"'
JSON_HEADER = "-H 'Content-Type: application/json'"
LINE_CONTINUATION = " \\\n  "
ENCODE_OPTIONS = {
    "text_columns": "--texts", "label_column": "--labels", "poolings": "--pooling", "layers": "--layers",
    "max_rows": "--max-rows", "max_length": "--max-length", "batch_size": "--batch-size", "seed": "--seed",
}  # fmt: skip


class Server(NamedTuple):
    """The URL by which the client reached this dashboard, and whether it needs an access token."""

    url: str
    needs_token: bool

    @classmethod
    def from_request(cls, request: Request, settings: Settings) -> Self:
        return cls(str(request.base_url).rstrip("/"), settings.access_token is not None)

    def curl(self, path: str, *options: str) -> str:
        headers = [AUTHORIZATION_HEADER] if self.needs_token else []
        return LINE_CONTINUATION.join([f"curl {shlex.quote(f'{self.url}/api{path}')}", *headers, *options])

    def python(self, *lines: str) -> str:
        """Return Python code that connects to this server and runs the lines."""
        setup = f"from isoscope.client import Isoscope\n\nisoscope = Isoscope({self.url!r})\n"
        return setup + "".join(f"{line}\n" for line in lines)

    def snippets(self, curl: str, command: str, arguments: str, *python_lines: str) -> list["Snippet"]:
        """Return a request by curl, a command of ``isoscope`` with arguments, and lines of Python that do the same."""
        return [
            Snippet("curl", curl),
            Snippet("Command line", f"isoscope {command} --url {shlex.quote(self.url)} {arguments}"),
            Snippet("Python", self.python(*python_lines)),
        ]


class Snippet(NamedTuple):
    """A command, code or file that does the same as a form. The name is its tab's."""

    name: str
    text: str


def form_snippets(
    request: Request, context: Context, dataset: Dataset | None, parse: Callable[[], LaunchRequest]
) -> list[Snippet]:
    """Return snippets that launch what a form launches; none without a data set or if ``parse`` raises InvalidError."""
    if dataset is None:
        return []
    try:
        launch_request = parse()
    except InvalidError:
        return []
    server = Server.from_request(request, context.settings)
    settings, yaml = to_document(launch_request), to_yaml(launch_request, dataset)
    path = "/studies" if isinstance(launch_request, StudyRequest) else "/experiments"
    curl = server.curl(path, *_json_options(settings))
    # No line of the document is YAML alone, so none ends the here-document early.
    here_document = f"- <<'YAML'\n{yaml}YAML"
    launch = f"experiment = isoscope.sweep({_python_dict(settings)})"
    snippets = server.snippets(curl, "sweep", here_document, launch, "isoscope.wait(experiment)")
    return [*snippets, Snippet("YAML", yaml)]


def encoding_snippets(server: Server, encoding_id: str, config: EncodingConfig) -> list[Snippet]:
    settings = config.model_dump(mode="json", exclude_defaults=True)
    options = [f"--encoding {shlex.quote(encoding_id)}", f"--model={shlex.quote(config.model)}"]
    for name, option in ENCODE_OPTIONS.items():
        if name in settings:
            value = settings[name]
            if not isinstance(value, list):
                texts = ["all" if value is None else str(value)]
            else:
                texts = [",".join(map(str, value))] if name == "layers" else [str(item) for item in value]
            # Joined by =, because a column may be called -1.
            options += [f"{option}={shlex.quote(text)}" for text in texts]
    curl = server.curl(f"/encodings/{encoding_id}/launch", *_json_options(settings))
    launch = f"encoding = isoscope.launch_encoding({encoding_id!r}, {_python_dict(settings)})"
    return server.snippets(curl, "encode", LINE_CONTINUATION.join(options), launch)


def text_snippets(server: Server, model: str) -> list[Snippet]:
    """Return snippets that upload and encode an example file of texts."""
    settings = {"model": model, "text_columns": ["line"]}
    upload = server.curl("/encodings", "-F file=@texts.txt")
    launch = server.curl("/encodings/ID/launch", *_json_options(settings))
    arguments = f"texts.txt --model={shlex.quote(model)}"
    encode = f"encoding = isoscope.encode('texts.txt', model={model!r})"
    return server.snippets(f"{upload}\n{launch}", "encode", arguments, encode)


def _json_options(settings: Mapping[str, Any]) -> tuple[str, str]:
    return JSON_HEADER, f"--data-raw {shlex.quote(json.dumps(settings, indent=1, ensure_ascii=False))}"


def _python_dict(settings: Mapping[str, Any]) -> str:
    return "{\n" + "".join(f"    {name!r}: {value!r},\n" for name, value in settings.items()) + "}"
