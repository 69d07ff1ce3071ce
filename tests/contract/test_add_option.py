"""An option that is added through its record alone is found on every surface."""

import pytest

from tests.adding import copy_package, look

RECORD = """
    momentum: Annotated[
        FiniteFloat,
        Field(ge=0, lt=1),
        Option("Momentum", "Fraction of the last step that each step keeps.", OPTIMIZER, several="momenta"),
    ] = 0.9
"""
LOOK = """
from pydantic import ValidationError
from starlette.datastructures import ImmutableMultiDict

from app.db.config import RunConfig
from app.documentation.reference import describe_options
from isoscope.core.errors import InvalidError
from app.figures.labels import head
from isoscope.files.yaml_document import read_yaml, write_yaml
from app.web.error_responses import invalid_request
from app.results.run_page import configuration
from app.training.sweep_form import defaults, parse, read_values, sweep_controls
from app.results.search.conditions import find_field
from app.training.grid_expansion import product_of
from app.training.relaunch import plain
from app.training.sweeps import SweepRequest
from app.web.templating import templates

needed = {"model": "m", "dataset_id": "d", "text_columns": ["a"], "label_column": "b"}
values = defaults(None, "m") | needed | {"lambdas": "1"}

controls, shown = sweep_controls(values, gpu=True)
field = templates.env.get_template("web/_field.html").module.control(shown["momentum"])
assert '<label for="momentum">Momentum</label>' in field and 'value="0.9"' in field
assert controls["momentum"].option.group.title == "Optimizer and schedule"
assert parse(values | read_values(ImmutableMultiDict([("momentum", "0.5")]))).momentum == 0.5

try:
    parse(values | {"momentum": "2"})
except InvalidError as error:
    assert (error.field, error.message) == ("momentum", "Enter a number below 1, not 2.")
try:
    SweepRequest(**needed, momentum=2)
except ValidationError as error:
    told = invalid_request(error.errors())
    assert (told.field, told.message) == ("momentum", "Expected momentum below 1, got 2.")

schema = SweepRequest.model_json_schema()["properties"]["momentum"]
assert (schema["title"], schema["exclusiveMaximum"]) == ("Momentum", 1)
assert schema["description"] == "Fraction of the last step that each step keeps."

asked = SweepRequest(**needed, momentum=0.5, grid={"momentum": [0.5, 0.7]})
assert read_yaml(write_yaml(plain(asked), {}))["momentum"] == 0.5
assert "2 momenta" in product_of(asked.grid, [], frozenset(), [0], [0]).describe()

assert head("momentum") == "Momentum"
assert find_field("momentum") is not None
assert "| `momentum` | Momentum | `0.9` |" in describe_options()

training = {"model": "m", "text_columns": ["a"], "label_column": "b", "label_names": ["x", "y"]}
run = RunConfig(**training, regularizer="none", lam=0, seed=0, momentum=0.5)
assert ("Momentum", "0.5", None) in configuration(run, None)["Training"]
"""


@pytest.mark.slow
def test_an_option_is_added_through_its_record(tmp_path):
    copy_package(tmp_path, "app")
    file = tmp_path / "app/db/options/training.py"
    before, mark, after = file.read_text().partition("\n    train_rows: Annotated[")
    file.write_text(f"{before}{RECORD}{mark}{after}")
    look(tmp_path, LOOK)
