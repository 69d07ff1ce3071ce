import pytest
from pydantic import ValidationError
from starlette.datastructures import ImmutableMultiDict

from app.db.config import TrainingOptions
from app.db.options.option import collect_options
from app.training import sweep_form
from app.training.grid_expansion import GRID_FIELDS
from app.training.option_form import label_fields
from app.training.presets import PRESETS
from app.training.sweeps import SweepRequest
from isoscope.core.errors import InvalidError

NEEDED = {"dataset_id": "d", "text_columns": ["sentence"], "label_column": "label"}
OPTIONS = [name for name in TrainingOptions.model_fields if name != "layers"]


def filled(**changes):
    return sweep_form.default_values(None, "m") | NEEDED | changes


def options_of_schema(name):
    """Return the enum values of a setting; none if it is free text."""
    described = SweepRequest.model_json_schema()
    setting = described["properties"][name]
    kinds = [setting, *setting.get("anyOf", [])]
    definitions = [described["$defs"][kind["$ref"].rsplit("/", 1)[-1]] for kind in kinds if "$ref" in kind]
    return [value for kind in definitions for value in kind.get("enum", [])]


@pytest.mark.parametrize("name", [name for name in OPTIONS if options_of_schema(name)])
def test_every_enum_value_has_an_option(name):
    offered = collect_options(SweepRequest)[name].words
    assert {value for value in offered if value} == set(options_of_schema(name))


def test_grid_offers_all_grid_fields_and_form_starts_with_defaults():
    assert {*sweep_form.GRID_GROUPS["Training"], *sweep_form.GRID_GROUPS["Regularizers"]} == set(GRID_FIELDS) - {
        "fixed_regularizers"
    }
    sweep = sweep_form.parse_sweep(filled())
    assert sweep == SweepRequest(model="m", **NEEDED)
    preset = PRESETS["istar-2-tuning"]
    assert preset.settings["precision"] == "fp16"
    assert sweep_form.preset_values(preset, has_gpu=False)["precision"] == "fp32"


@pytest.mark.parametrize("stage", PRESETS)
def test_preset_means_the_same_in_form_and_api(stage):
    preset = PRESETS[stage]
    assert sweep_form.parse_sweep(filled(**sweep_form.preset_values(preset, has_gpu=True))) == SweepRequest(
        model="m", **NEEDED, **preset.settings
    )


def test_grid_rows_are_read_in_order():
    fields = [("grid_field", name) for name in ("layers", "batch_size", "")]
    texts = [("grid_values", text) for text in ("last, 1 2, default, all,", " 8 16 ", "")]
    data = ImmutableMultiDict([*fields, *texts])
    values = sweep_form.read_values(data)
    assert values["grid"] == [("layers", "last, 1 2, default, all,"), ("batch_size", "8 16")]
    assert sweep_form.parse_sweep(filled(**values)).grid == {
        "layers": ["last", [1, 2], None, "all"],
        "batch_size": [8, 16],
    }


@pytest.mark.parametrize(
    ("changes", "field", "sentence"),
    [
        ({"layers": "first"}, "layers", "Enter a whole number, not 'first'."),
        ({"layers": "0"}, "layers", "Enter a number of at least 1, not 0."),
        ({"points": "words"}, "points", "Choose tokens, sentence or mean, not 'words'."),
        ({"regularizers": ["l2"]}, "regularizers", "Choose none, istar"),
        ({"fixed_cosreg": "much"}, "fixed_cosreg", "Enter a number, not 'much'."),
        ({"grid": [("warmup", "0"), ("batch_size", "8, x")]}, "grid-2", "Enter a whole number, not 'x'."),
        ({"grid": [("batch_size", "")]}, "grid-1", "Enter the values of Batch size."),
        ({"grid": [("", "1, 2")]}, "grid-1", "Choose an option for the values 1, 2."),
        ({"grid": [("metric", "f1")]}, "grid-1", "Choose an option for the values f1."),
        ({"grid": [("epochs", "1"), ("epochs", "2")]}, "grid-2", "Epochs is in the grid twice. Join its values in one"),
        ({"epochs": ""}, "max_steps", "Expected either Epochs or Max steps; give one of them."),
        ({"metric": "pearson"}, "metric", "Expected a metric of classification, one of accuracy, f1, matthews"),
        ({"warmup": "1"}, "warmup", "Enter a number below 1, not 1."),
        ({"batch_size": ""}, "batch_size", "Enter a whole number. The field is empty."),
        ({"zetas": "0.2, 2"}, "zetas", "Enter a number up to 1, not 2."),
        ({"lambdas": "1e308"}, "lambdas", "Enter a number up to 1e+06, not"),
        ({"lambdas": "true"}, "lambdas", "Enter a number, not 'true'."),
        ({"zetas": "true"}, "zetas", "Enter a number, not 'true'."),
        ({"seeds": "1e308"}, "seeds", "Enter a whole number, not '1e308'."),
        ({"seeds": "true"}, "seeds", "Enter a whole number, not 'true'."),
        ({"patience": "never"}, "patience", "Enter a whole number, not 'never'."),
    ],
)
def test_invalid_value_is_refused_at_its_field(changes, field, sentence):
    with pytest.raises(InvalidError) as refused:
        sweep_form.parse_sweep(filled(**changes))
    assert refused.value.field == field
    assert sentence in label_fields(refused.value, sweep_form.LABELS).message


def test_all_invalid_fields_are_reported_together():
    with pytest.raises(InvalidError) as refused:
        sweep_form.parse_sweep(filled(batch_size="0", warmup="x", seeds="-1, x", grid=[("", "1"), ("stride", "1, y")]))
    assert {error.field for error in refused.value.errors} == {"grid-1", "warmup", "batch_size", "seeds", "grid-2"}


def test_max_steps_replace_epochs():
    assert sweep_form.parse_sweep(filled(fixed_entropy="−0.5")).fixed_regularizers == {"entropy": -0.5}
    sweep = sweep_form.parse_sweep(filled(epochs="3", max_steps="20"))
    assert (sweep.epochs, sweep.max_steps) == (None, 20)
    sweep_request = SweepRequest(model="m", **NEEDED, max_steps=20)
    assert (sweep_request.epochs, sweep_request.max_steps) == (None, 20)
    assert SweepRequest(model="m", **NEEDED, max_steps=None).epochs == 3
    with pytest.raises(ValidationError, match="expected either `epochs` or `max_steps`; give one of them"):
        SweepRequest(model="m", **NEEDED, epochs=3, max_steps=20)
    ticked = sweep_form.parse_sweep(filled(**dict.fromkeys(sweep_form.FLAG_FIELDS, "true")))
    assert (ticked.include_padding, ticked.gradient_checkpointing, ticked.export) == (True, True, True)
    assert sweep_form.parse_sweep(filled()).export is False


def test_task_change_replaces_unfitting_metric():
    assert sweep_form.with_fitting_metric(filled(task="regression"))["metric"] == "pearson"
    assert sweep_form.with_fitting_metric(filled(metric="matthews"))["metric"] == "matthews"
    assert sweep_form.with_fitting_metric(filled(task="poetry"))["metric"] == "accuracy"
    values = sweep_form.with_fitting_metric(filled(task="regression"))
    assert (values["entropy_by_label"], sweep_form.parse_sweep(values).entropy_by_label) == ("true", False)
    values = sweep_form.with_fitting_metric(values | {"task": "classification"})
    assert sweep_form.parse_sweep(values).entropy_by_label is True
