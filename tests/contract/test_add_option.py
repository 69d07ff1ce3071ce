import pytest

from tests.package_copies import copy_package, run_script

RECORD = """
    clipping: Annotated[
        FiniteFloat,
        Field(ge=0, lt=100),
        Option("Gradient clipping", "Largest norm of a gradient. 0: no clipping.", OPTIMIZER, plural="clippings"),
    ] = 0.0
"""
LOOK = """
from pydantic import ValidationError
from starlette.datastructures import ImmutableMultiDict

from app.db.config import RunConfig
from app.documentation.reference import describe_options
from isoscope.core.errors import InvalidError
from app.figures.labels import field_heading
from isoscope.files.yaml_document import read_yaml, write_yaml
from app.web.error_responses import to_invalid_error
from app.results.run_page import list_options
from app.training.sweep_form import default_values, parse_sweep, read_values, sweep_controls
from app.results.search.conditions import find_field
from app.training.grid_expansion import build_product
from app.training.relaunch import to_document
from app.training.sweeps import SweepRequest
from app.web.templating import templates

required = {"model": "m", "dataset_id": "d", "text_columns": ["a"], "label_column": "b"}
values = default_values(None, "m") | required | {"lambdas": "1"}

controls, visible = sweep_controls(values, has_gpu=True)
field = templates.env.get_template("web/_field.html").module.control(visible["clipping"])
assert '<label for="clipping">Gradient clipping</label>' in field and 'value="0"' in field
assert controls["clipping"].option.group.title == "Optimizer and schedule"
assert parse_sweep(values | read_values(ImmutableMultiDict([("clipping", "0.5")]))).clipping == 0.5

try:
    parse_sweep(values | {"clipping": "200"})
except InvalidError as error:
    assert (error.field, error.message) == ("clipping", "Enter a number below 100, not 200.")
try:
    SweepRequest(**required, clipping=200)
except ValidationError as error:
    refusal = to_invalid_error(error.errors())
    assert (refusal.field, refusal.message) == ("clipping", "Expected clipping below 100, got 200.")

schema = SweepRequest.model_json_schema()["properties"]["clipping"]
assert (schema["title"], schema["exclusiveMaximum"]) == ("Gradient clipping", 100)
assert schema["description"] == "Largest norm of a gradient. 0: no clipping."

request = SweepRequest(**required, clipping=0.5, grid={"clipping": [0.5, 0.7]})
assert read_yaml(write_yaml(to_document(request), {}))["clipping"] == 0.5
assert "2 clippings" in build_product(request.grid, [], frozenset(), [0], [0]).describe()

assert field_heading("clipping") == "Gradient clipping"
assert find_field("clipping") is not None
assert "| `clipping` | Gradient clipping | `0.0` |" in describe_options()

training = {"model": "m", "text_columns": ["a"], "label_column": "b", "label_names": ["x", "y"]}
run = RunConfig(**training, regularizer="none", lam=0, seed=0, clipping=0.5)
assert ("Gradient clipping", "0.5", None) in list_options(run, None)["Training"]
"""


@pytest.mark.slow
def test_added_option_appears_everywhere(tmp_path):
    copy_package(tmp_path, "app")
    file = tmp_path / "app/db/options/training.py"
    before, mark, after = file.read_text().partition("\n    train_rows: Annotated[")
    file.write_text(f"{before}{RECORD}{mark}{after}")
    run_script(tmp_path, LOOK)
