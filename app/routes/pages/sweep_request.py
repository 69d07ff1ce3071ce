"""What the texts of the sweep form mean, and what is said where they mean nothing."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from app.db.regularizer_options import Layers
from app.db.task import TaskKind
from app.errors import InvalidError
from app.routes.pages.sweep_choices import GRID_GROUPS, LABELS
from app.routes.pages.sweep_form import BESIDE, DEFAULT, FLAGS, Values
from app.services.sweeps import SweepRequest
from app.validation_messages import VALUE_ERROR, complaint_of

WITHOUT_CLASSES = set(TaskKind) - {TaskKind.CLASSIFICATION}
LISTS = ("lambdas", "zetas", "seeds")
OPTIONAL = (
    "name",
    "layers",
    "points",
    "epochs",
    "max_steps",
    "train_rows",
    "validation_rows",
    "probe_every",
    "evaluate_every",
    "patience",
)

OFFERED = {name for names in GRID_GROUPS.values() for name in names}
"""Settings that a row of the grid may be of."""

WEIGHT = "a number from −1000000 to 1000000, or nothing"
EXPECTED = {
    "name": "a name of at most 200 characters",
    "dataset_id": "a data set",
    "task": "classification, regression or span",
    "text_columns": "one or two text columns",
    "label_column": "a label column",
    "metric": "a metric of the task",
    "model": "a model",
    "regularizers": "regularizers of those offered",
    "lambdas": "numbers separated by commas, from −1000000 to 1000000, such as -1, 0, 1",
    "zetas": "numbers from 0 to 1, separated by commas, such as 0.2, 0.4",
    "seeds": "whole numbers from 0, separated by commas, such as 0, 1, 2",
    "layers": "layer numbers from 1, separated by commas, or all, last, or nothing for those of its paper",
    "points": "tokens, sentence or mean, or nothing for those of its paper",
    "token_fraction": "a number above 0 and at most 1, such as 0.25",
    "shrinkage_points": "a whole number from 2",
    "shrinkage_refresh": "epoch, steps or average",
    "shrinkage_every": "a whole number from 1",
    "shrinkage_momentum": "a number from 0 and below 1",
    "entropy_bars": "prominent or all",
    "entropy_by_label": "true or false",
    "entropy_cluster_weight": "a number from 0 to 1000000",
    "epochs": "a whole number from 1 to 1000, or steps instead",
    "max_steps": "a whole number from 1, or epochs instead",
    "batch_size": "a whole number from 1 to 4096",
    "accumulation": "a whole number from 1 to 1024",
    "optimizer": "adamw or adam",
    "learning_rate": "a number above 0 and at most 1, such as 3e-5",
    "warmup": "a number from 0 and below 1, such as 0.1",
    "schedule": "constant, linear or cosine",
    "weight_decay": "a number from 0 to 1",
    "precision": "fp32, fp16 or bf16",
    "gradient_checkpointing": "true or false",
    "include_padding": "true or false",
    "export": "true or false",
    "processes": "a whole number from 1 to 64",
    "max_length": "a whole number from 8 to 4096",
    "stride": "a whole number from 0 to 2048",
    "train_rows": "a whole number from 2, or nothing for all rows",
    "validation_rows": "a whole number from 2, or nothing for all rows",
    "probe_every": "a whole number from 1, or empty for at most about 12 measurements",
    "evaluation_zeta": "a number from 0 to 1",
    "checkpoint": "last or best",
    "selection": "held_out or validation",
    "evaluate_every": "a whole number from 1, or nothing for once an epoch",
    "patience": "a whole number from 1 to 1000, or nothing for never",
} | dict.fromkeys(BESIDE, WEIGHT)


def parse(values: Values) -> SweepRequest:
    """The request that the texts mean. Raises InvalidError at the first field that means nothing."""
    given = {name: value for name, value in values.items() if value or name not in OPTIONAL}
    given |= {name: _split(given[name]) for name in LISTS if name in given}
    given |= {name: bool(values.get(name)) for name in FLAGS}
    given["beside"] = {one: _plain(given.pop(name, "")) for name, one in BESIDE.items() if values.get(name)}
    for name in ("preset", *BESIDE):
        given.pop(name, None)
    if "layers" in given:
        given["layers"] = _layers(given["layers"])
    if given.get("max_steps") or values.get("epochs") == "":
        given["epochs"] = None
    if given.get("task") in WITHOUT_CLASSES:
        given["entropy_by_label"] = False
    given["grid"] = _grid(values.get("grid", []))
    try:
        return SweepRequest.model_validate(given)
    except ValidationError as error:
        raise _complaint(error, values) from error


def _grid(rows: list[tuple[str, str]]) -> dict[str, list[Any]]:
    grid: dict[str, list[Any]] = {}
    for number, (field, texts) in enumerate(rows, start=1):
        row = _row(number)
        if field not in OFFERED:
            raise InvalidError(f"Expected a setting for the values {texts}, got {field or 'none'}.", row)
        if field in grid:
            raise InvalidError(
                f"Expected each setting once in the grid, got {LABELS[field]} twice; join its values.", row
            )
        if not texts:
            raise InvalidError(f"Expected the values of {LABELS[field]} in the grid, got nothing.", row)
        grid[field] = [_value(field, text) for text in (texts.split(",") if field == "layers" else _split(texts))]
    return grid


def _row(number: int) -> str:
    """The field of the form that a row of the grid is, from 1."""
    return f"grid-{number}"


def _value(field: str, text: str) -> Any:
    text = text.strip()
    if text == DEFAULT:
        return None
    return _layers(text) if field == "layers" else text


def _layers(text: str) -> str | list[str]:
    return text if text in set(Layers) else _split(text)


def _split(text: str) -> list[str]:
    return [part for part in _plain(text).replace(",", " ").split() if part]


def _plain(text: str) -> str:
    return text.replace("−", "-")


def _complaint(error: ValidationError, values: Mapping[str, Any]) -> InvalidError:
    first = error.errors()[0]
    place = complaint_of(error.errors()).place
    field = str(place[0])
    if first["type"] == VALUE_ERROR and field != "max_steps":  # which says the names of both lengths
        return InvalidError(complaint_of(error.errors()).sentence, field)
    if field == "grid":
        name = str(place[1])
        number, came = next((n, texts) for n, (row, texts) in enumerate(values["grid"], start=1) if row == name)
        sentence = f"Expected of each value of {LABELS[name]} in the grid: {EXPECTED[name]}; got {came}."
        return InvalidError(sentence, _row(number))
    if field == "beside":
        field = f"beside_{place[1]}"
    came = values.get(field) or "nothing"
    came = ", ".join(came) if isinstance(came, list) else came
    return InvalidError(f"Expected {EXPECTED[field]}; got {came}.", field)
