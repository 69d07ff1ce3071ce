"""The sweep form has every setting, offers every value of each, and says truly what it expects."""

import pytest
from pydantic import ValidationError
from starlette.datastructures import ImmutableMultiDict

from app.db.config import TrainingOptions
from app.errors import InvalidError
from app.routes.pages.sweep_choices import GRID_GROUPS, LABELS, WORDS
from app.routes.pages.sweep_form import FLAGS, defaults, fitting, read_values, texts_of
from app.routes.pages.sweep_request import EXPECTED, parse
from app.services.grid import GRID_FIELDS
from app.services.presets import PRESETS
from app.services.sweeps import SweepRequest
from app.templating import FRONTEND

NEEDED = {"dataset_id": "d", "text_columns": ["sentence"], "label_column": "label"}
OFTEN = {"regularizers", "beside", "grid"}


def filled(**changes):
    return defaults(None, "m") | NEEDED | changes


def options_of(name):
    """The values that a setting can be chosen from; none where it is typed."""
    described = SweepRequest.model_json_schema()
    setting = described["properties"][name]
    kinds = [setting, *setting.get("anyOf", [])]
    named = [described["$defs"][kind["$ref"].rsplit("/", 1)[-1]] for kind in kinds if "$ref" in kind]
    return [value for kind in named for value in kind.get("enum", [])]


def test_every_setting_of_a_sweep_is_in_the_form():
    settings = set(SweepRequest.model_fields)
    assert settings - OFTEN == set(LABELS) - OFTEN
    assert settings - {"beside", "grid"} <= set(EXPECTED)
    templates = "".join(path.read_text() for path in (FRONTEND / "templates").glob("_sweep_*.html"))
    assert [
        name for name in settings - {"beside", "grid"} if f'"{name}"' not in templates and name not in templates
    ] == []


@pytest.mark.parametrize("name", [name for name in TrainingOptions.model_fields if options_of(name)])
def test_what_can_be_chosen_is_offered_and_expected(name):
    values = options_of(name)
    if name in WORDS:
        assert {value for value in WORDS[name] if value} == set(values)
    if name != "metric":
        assert all(value in EXPECTED[name] for value in values)


def test_the_grid_is_offered_over_all_that_may_differ_but_sets_of_regularizers():
    assert {*GRID_GROUPS["Training"], *GRID_GROUPS["Regularizers"]} == set(GRID_FIELDS) - {"beside"}


def test_the_form_as_it_starts_is_the_request_with_its_defaults():
    asked = parse(filled())
    assert asked == SweepRequest(model="m", **NEEDED)


@pytest.mark.parametrize("stage", PRESETS)
def test_a_preset_in_the_form_means_what_it_means_over_the_api(stage):
    preset = PRESETS[stage]
    assert parse(filled(**texts_of(preset, gpu=True))) == SweepRequest(model="m", **NEEDED, **preset.settings)


def test_without_a_gpu_a_preset_is_filled_in_with_full_precision():
    preset = PRESETS["istar-2-tuning"]
    assert preset.settings["precision"] == "fp16"
    assert texts_of(preset, gpu=False)["precision"] == "fp32"


def test_rows_of_the_grid_are_read_in_their_order_and_mean_values():
    fields = [("grid_field", name) for name in ("layers", "batch_size", "")]
    texts = [("grid_values", text) for text in ("last, 1 2, default, all", " 8 16 ", "")]
    data = ImmutableMultiDict([*fields, *texts])
    values = read_values(data)
    assert values["grid"] == [("layers", "last, 1 2, default, all"), ("batch_size", "8 16")]
    assert parse(filled(**values)).grid == {"layers": ["last", [1, 2], None, "all"], "batch_size": [8, 16]}


@pytest.mark.parametrize(
    ("changes", "field", "sentence"),
    [
        ({"layers": "first"}, "layers", "Expected layer numbers from 1, separated by commas, or all, last, or nothing"),
        ({"layers": "0"}, "layers", "got 0."),
        ({"points": "words"}, "points", "Expected tokens, sentence or mean"),
        ({"regularizers": ["l2"]}, "regularizers", "Expected regularizers of those offered; got l2."),
        (
            {"beside_cosreg": "much"},
            "beside_cosreg",
            "Expected a number from −1000000 to 1000000, or nothing; got much.",
        ),
        (
            {"grid": [("warmup", "0"), ("batch_size", "8, x")]},
            "grid-2",
            "in the grid: a whole number from 1 to 4096; got 8, x.",
        ),
        ({"grid": [("batch_size", "")]}, "grid-1", "Expected the values of Batch size in the grid, got nothing."),
        ({"grid": [("", "1, 2")]}, "grid-1", "Expected a setting for the values 1, 2, got none."),
        ({"grid": [("metric", "f1")]}, "grid-1", "Expected a setting for the values f1, got metric."),
        ({"grid": [("beside", "x")]}, "grid-1", "Expected a setting for the values x, got beside."),
        (
            {"grid": [("epochs", "1"), ("epochs", "2")]},
            "grid-2",
            "Expected each setting once in the grid, got Epochs twice; join its values.",
        ),
        ({"epochs": ""}, "max_steps", "Expected a whole number from 1, or epochs instead; got nothing."),
        ({"metric": "pearson"}, "metric", "Expected a metric of classification, one of accuracy, f1, matthews"),
        ({"warmup": "1"}, "warmup", "Expected a number from 0 and below 1, such as 0.1; got 1."),
        ({"zetas": "0.2, 2"}, "zetas", "got 0.2, 2."),
        ({"lambdas": "1e308"}, "lambdas", "Expected numbers separated by commas, from −1000000 to 1000000"),
        ({"lambdas": "true"}, "lambdas", "from −1000000 to 1000000, such as -1, 0, 1; got true."),
        ({"zetas": "true"}, "zetas", "Expected numbers from 0 to 1, separated by commas"),
        ({"seeds": "true"}, "seeds", "Expected whole numbers from 0, separated by commas"),
        ({"seeds": "1e308"}, "seeds", "Expected whole numbers from 0, separated by commas"),
        ({"patience": "never"}, "patience", "or nothing for never; got never."),
    ],
)
def test_what_means_nothing_is_told_at_its_field(changes, field, sentence):
    with pytest.raises(InvalidError) as refused:
        parse(filled(**changes))
    assert refused.value.field == field
    assert sentence in refused.value.message


def test_a_lambda_beside_every_run_is_read_with_any_minus():
    assert parse(filled(beside_entropy="−0.5")).beside == {"entropy": -0.5}


def test_steps_count_instead_of_epochs():
    asked = parse(filled(epochs="3", max_steps="20"))
    assert (asked.epochs, asked.max_steps) == (None, 20)


def test_steps_that_are_said_alone_stand_in_for_epochs_and_beside_epochs_are_refused():
    said = SweepRequest(model="m", **NEEDED, max_steps=20)
    assert (said.epochs, said.max_steps) == (None, 20)
    assert SweepRequest(model="m", **NEEDED, max_steps=None).epochs == 3
    with pytest.raises(ValidationError, match="expected either epochs or max_steps; give one of them"):
        SweepRequest(model="m", **NEEDED, epochs=3, max_steps=20)


def test_a_metric_that_does_not_fit_another_task_is_changed_with_it():
    assert fitting(filled(task="regression"))["metric"] == "pearson"
    assert fitting(filled(metric="matthews"))["metric"] == "matthews"
    assert fitting(filled(task="poetry"))["metric"] == "accuracy"


def test_entropy_is_by_label_again_after_a_task_without_classes():
    among = fitting(filled(task="regression"))
    assert (among["entropy_by_label"], parse(among).entropy_by_label) == ("true", False)
    back = fitting(among | {"task": "classification"})
    assert parse(back).entropy_by_label is True


def test_a_box_that_is_ticked_is_true_and_one_that_is_not_is_false():
    ticked = parse(filled(**dict.fromkeys(FLAGS, "true")))
    assert (ticked.include_padding, ticked.gradient_checkpointing, ticked.export) == (True, True, True)
    assert parse(filled()).export is False
