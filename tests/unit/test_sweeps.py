import pytest
from pydantic import ValidationError
from starlette.datastructures import ImmutableMultiDict

from app.db.config import RunConfig, TrainingOptions
from app.db.models import Dataset
from app.db.options.option import collect_options
from app.training import sweep_form
from app.training.experiments import StudyRequest
from app.training.grid_expansion import GRID_FIELDS, build_product
from app.training.models import ModelChoice
from app.training.option_form import label_fields
from app.training.presets import PRESETS, Stage, misfit_warning
from app.training.relaunch import read_document
from app.training.sweeps import SweepRequest, check_run, list_plan_notes, list_row_notes
from isoscope.core.errors import InvalidError
from isoscope.files.columns import Column
from isoscope.files.yaml_document import read_yaml
from isotropy.catalog import Regularizer

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
    in_groups = {*sweep_form.GRID_GROUPS["Training"], *sweep_form.GRID_GROUPS["Regularizers"]}
    assert in_groups == set(GRID_FIELDS) - {"fixed_regularizers"}
    sweep = sweep_form.parse_sweep(filled())
    assert sweep == SweepRequest(model="m", **NEEDED)
    preset = PRESETS["istar-2-tuning"]
    assert preset.settings["precision"] == "fp16"
    assert sweep_form.preset_values(preset, has_gpu=False)["precision"] == "fp32"


@pytest.mark.parametrize("stage", PRESETS)
def test_preset_means_the_same_in_form_and_api(stage):
    preset = PRESETS[stage]
    values = sweep_form.preset_values(preset, has_gpu=True)
    assert sweep_form.parse_sweep(filled(**values)) == SweepRequest(model="m", **NEEDED, **preset.settings)


def test_grid_rows_are_read_in_order():
    fields = [("grid_field", name) for name in ("layers", "batch_size", "")]
    texts = [("grid_values", text) for text in ("last, 1 2, default, all,", " 8 16 ", "")]
    data = ImmutableMultiDict([*fields, *texts])
    values = sweep_form.read_values(data)
    assert values["grid"] == [("layers", "last, 1 2, default, all,"), ("batch_size", "8 16")]
    grid = {"layers": ["last", [1, 2], None, "all"], "batch_size": [8, 16]}
    assert sweep_form.parse_sweep(filled(**values)).grid == grid


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


SWEEP = f"dataset_id: {'a' * 32}\ntext_columns: [sentence]\nlabel_column: label\nmodel: minilm\n"
SEARCH = "search: {regularizer: cosreg"


@pytest.mark.parametrize(
    ("line", "field", "sentence"),
    [
        ("lambdas: [1e308]", "lambdas", "Expected lambdas.0 up to 1e+06, got '1e308'."),
        ("lambdas: [1.0e+308]", "lambdas", "Expected lambdas.0 up to 1e+06, got 1e+308."),
        ("lambdas: [true]", "lambdas", "Expected lambdas.0 as a number, got 'true'."),
        ("seeds: [true]", "seeds", "Expected seeds.0 as a whole number, got 'true'."),
        ("seeds: [yes]", "seeds", "Expected seeds.0 as a whole number, got 'true'."),
        ("seeds: [1e308]", "seeds", "as a whole number, got '1e308'."),
        ("zetas: [true]", "zetas", "Expected zetas.0 as a number, got 'true'."),
        ("epochs: true", "epochs", "Expected epochs as a whole number, got 'true'."),
        ("fixed_regularizers: {cosreg: 1e308}", "fixed_regularizers", "cosreg up to 1e+06, got '1e308'"),
        ("grid: {batch_size: [true]}", "grid", "Expected grid.batch_size.0 as a whole number, got 'true'."),
        (f"{SEARCH}, lam_high: 1e308}}", "lam_high", "Expected search.lam_high up to 1e+06, got '1e308'."),
        (f"{SEARCH}, lam_high: true}}", "lam_high", "Expected search.lam_high as a number, got 'true'."),
        (f"{SEARCH}, seed: true}}", "seed", "Expected search.seed as a whole number, got 'true'."),
        ("search: {trials: many}", "trials", "Expected search.trials as a whole number"),
    ],
)
def test_sweep_file_refuses_wrong_or_unbounded_numbers(line, field, sentence):
    kind = StudyRequest if line.startswith("search") else SweepRequest
    with pytest.raises(InvalidError) as refused:
        read_document(kind, read_yaml(SWEEP + line))
    assert refused.value.field == field
    assert sentence in refused.value.message


MODEL = ModelChoice("tiny", "", 6)


def span_run(**changes):
    columns = {"text_columns": ["question", "context"], "label_column": "answers", "label_names": []}
    values = {"model": "tiny", "task": "span", "metric": "word_f1", "regularizer": "none", "lam": 0, "seed": 0}
    return RunConfig.model_validate(values | columns | changes)


@pytest.mark.parametrize(("grid", "field"), [((), "stride"), (("stride",), "grid")])
def test_stride_as_long_as_window_is_refused(grid, field):
    with pytest.raises(InvalidError) as refused:
        check_run(span_run(max_length=64, stride=64), MODEL, grid)
    assert refused.value == InvalidError("Expected a stride below the 64 tokens of a window, got 64.", field)
    check_run(span_run(max_length=64, stride=63), MODEL, grid)


LAMBDAS = [-1.0, -0.3, 0.0, 0.3, 1.0]


def list_notes(repeated=0, **changed):
    ranges = {"lambdas": LAMBDAS, "zetas": [0.2], "seeds": [0, 1, 2], "grid": {}}
    request = SweepRequest.model_construct(**(ranges | changed))
    product = build_product({}, [Regularizer.ISTAR], frozenset(), request.lambdas, request.seeds)
    return list_plan_notes(request, product, repeated)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"seeds": [0, 1, 2, 0]}, "Seed 0 is given more than once and counts once."),
        ({"lambdas": [*LAMBDAS, 1.0]}, "λ 1 is given more than once and counts once."),
        ({"zetas": [0.2, 0.2]}, "ζ 0.2 is given more than once and counts once."),
        ({"grid": {"batch_size": [8, 8]}}, "Batch size 8 is given more than once and counts once."),
        ({"lambdas": [-1.0, -0.3, 0.3, 1.0]}, "The λ = 0 baseline was added, one run for each seed and setting."),
        ({"lambdas": [0.0]}, "λ = 0 is the only λ, so all runs are baselines."),
        ({"lambdas": [-1.0, 0.0, 1.0]},
         "3 values of λ cannot show whether performance goes with isotropy. Use 5 or more, λ = 0 included."),
        ({"seeds": [4, 5]}, "2 seeds cannot give a verdict on any λ. Use 3 or more."),
        ({"repeated": 1}, "1 run is left out, because the values in which it differs have no effect on it."),
        ({"repeated": 3},
         "3 runs are left out, because the values in which they differ have no effect on them."),
        ({}, None),
    ],
)  # fmt: skip
def test_each_condition_has_one_note(changed, sentence):
    assert list_notes(**changed) == ([] if sentence is None else [sentence])


def test_baseline_only_sweeps_and_unfitting_presets_have_a_note():
    request = SweepRequest.model_construct(lambdas=LAMBDAS, zetas=[0.2], seeds=[0], grid={})
    product = build_product({}, [], frozenset(), request.lambdas, request.seeds)
    assert list_plan_notes(request, product, 0) == ["No regularizer is selected, so all runs are baselines."]
    product = build_product({}, [Regularizer.ISTAR], frozenset(), [-1, 1], [0])
    assert product.describe(1) == "(1 baseline + I-STAR × 2 λ) × 1 seed − 1 repeated = 2 runs"
    assert "span has no classes" in (misfit_warning(PRESETS["shrink-mrpc"], "span") or "")
    assert misfit_warning(PRESETS["shrink-mrpc"], "classification") is None
    assert misfit_warning(PRESETS["istar-3-seeds"], "span") is None


def test_missing_rows_have_a_note():
    values = {"model": "m", "text_columns": ["t"], "label_column": "l", "label_names": ["a", "b"], "seed": 0}
    options = {"regularizer": "none", "lam": 0, "train_rows": 500, "validation_rows": 100}
    run = RunConfig.model_validate(values | options)
    (note,) = list_row_notes(Dataset(n_train=300, n_validation=100), [run])
    assert note == "500 train rows are requested but there are only 300: all are used."
    assert list_row_notes(Dataset(n_train=None, n_validation=None), [run]) == []


@pytest.mark.parametrize(
    ("counts", "unseen", "names"), [([7, 0], 0, ["'a'"]), ([7, 1], 0, []), ([7, 0], 1, []), (None, 0, [])]
)
def test_single_class_validation_has_a_note(counts, unseen, names):
    column = Column(
        name="l", kind="label", n_distinct=2, examples=[], values=["a", "b"], validation_counts=counts, unseen=[],
        n_unseen=unseen, n_missing_train=0, n_missing_validation=0,
    )  # fmt: skip
    values = {"model": "m", "text_columns": ["t"], "label_column": "l", "label_names": ["a", "b"], "seed": 0}
    run = RunConfig.model_validate(values | {"regularizer": "none", "lam": 0})
    notes = list_row_notes(Dataset(n_train=9, n_validation=7, columns=[column]), [run])
    assert [note.partition("class ")[2].partition(",")[0] for note in notes] == names


ISTAR, COSREG, ENTROPY, SPECTRUM = Regularizer.ISTAR, Regularizer.COSREG, Regularizer.ENTROPY, Regularizer.SPECTRUM


def make(ranges=None, regularizers=(ISTAR,), fixed=(), lambdas=(-1, 0, 1), seeds=(0,)):
    return build_product(ranges or {}, regularizers, frozenset(fixed), lambdas, seeds)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "(1 baseline + I-STAR × 2 λ) × 1 seed = 3 runs"),
        ({"regularizers": (), "seeds": (1, 2)}, "1 baseline × 2 seeds = 2 runs"),
        ({"lambdas": (0,)}, "1 baseline × 1 seed = 1 run"),
        ({"ranges": {"learning_rate": [1, 2], "zeta": [0.2, 0.4, 0.6]}, "regularizers": (COSREG, ISTAR)},
         "2 rates × (1 baseline + I-STAR × 2 λ × 3 ζ + CosReg × 2 λ) × 1 seed = 18 runs"),
        ({"regularizers": (ISTAR, COSREG, SPECTRUM), "ranges": {"epochs": [3]}, "seeds": range(5)},
         "(1 baseline + 3 methods × 2 λ) × 5 seeds = 35 runs"),
        ({"ranges": {"entropy_bars": ["prominent", "all"]}, "regularizers": (ENTROPY,), "lambdas": (1,)},
         "(1 baseline + persistent entropy × 1 λ × 2 kinds of bars) × 1 seed = 3 runs"),
        ({"ranges": {"entropy_bars": ["prominent", "all"]}, "fixed": (ENTROPY,)},
         "2 kinds of bars × (1 baseline + I-STAR × 2 λ) × 1 seed = 6 runs"),
        ({"ranges": {"zeta": [0.2, 0.4]}, "regularizers": (COSREG,), "fixed": (ISTAR,)},
         "2 ζ × (1 baseline + CosReg × 2 λ) × 1 seed = 6 runs"),
    ],
)  # fmt: skip
def test_described_count_equals_number_of_runs(arguments, words):
    product = make(**arguments)
    assert product.describe() == words
    runs = [tuple(sorted(run.items())) for run in product.run_settings()]
    assert len(runs) == len(set(runs)) == product.total


def test_each_setting_and_seed_starts_with_its_baseline():
    runs = list(make({"batch_size": [8, 16]}, lambdas=(1,), seeds=(4, 2)).run_settings())
    baselines = [(run["batch_size"], run["seed"]) for run in runs[::2]]
    assert baselines == [(8, 4), (8, 2), (16, 4), (16, 2)]
    assert {run["regularizer"] for run in runs[::2]} == {Regularizer.NONE}
    assert {(run["regularizer"], run["lam"]) for run in runs[1::2]} == {(ISTAR, 1)}


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (Stage.ISTAR_SEARCH, "3 numbers of epochs × 3 rates × 3 batch sizes × 1 baseline × 1 seed = 27 runs"),
        (Stage.ISTAR_TUNING, "(1 baseline + I-STAR × 7 λ × 4 ζ) × 1 seed = 29 runs"),
        (Stage.ISTAR_SEEDS, "(1 baseline + I-STAR × 1 λ) × 5 seeds = 10 runs"),
        (Stage.ISTAR_COSREG, "(1 baseline + CosReg × 1 λ) × 5 seeds = 10 runs"),
        (Stage.SHRINK_MRPC, "(1 baseline + persistent entropy × 1 λ × 2 kinds of bars) × 5 seeds = 15 runs"),
        (Stage.SHRINK_COLA, "(1 baseline + persistent entropy × 1 λ × 2 kinds of bars) × 5 seeds = 15 runs"),
    ],
)
def test_preset_requests_expected_runs(stage, words):
    needed = {"model": "m", "dataset_id": "d", "text_columns": ["a", "b"], "label_column": "c"}
    request = SweepRequest.model_validate(needed | PRESETS[stage].settings)
    swept = [regularizer for regularizer in request.regularizers if regularizer is not Regularizer.NONE]
    ranges = {**request.grid, "zeta": request.zetas}
    assert build_product(ranges, swept, frozenset(), request.lambdas, request.seeds).describe() == words


def test_presets_have_settings_of_papers():
    settings = {stage: preset.settings for stage, preset in PRESETS.items()}
    tuned = settings[Stage.ISTAR_TUNING]
    assert (tuned["lambdas"], tuned["zetas"]) == ([-5, -3, -1, 0.5, 1, 3, 5], [0.2, 0.4, 0.6, 0.8])
    names = ("accumulation", "precision", "schedule", "weight_decay")
    assert [tuned[name] for name in names] == [2, "fp16", "constant", 0]
    rates = [1e-5, 3e-5, 5e-5]
    searched = {"batch_size": [8, 16, 32], "epochs": [3, 4, 5], "learning_rate": rates}
    assert settings[Stage.ISTAR_SEARCH]["grid"] == searched
    paper_rates = {Stage.SHRINK_MRPC: (8e-5, 8e-6), Stage.SHRINK_COLA: (5e-5, 5e-6)}
    assert {
        paper_stage: (settings[paper_stage]["learning_rate"], settings[paper_stage]["weight_decay"])
        for paper_stage in paper_rates
    } == paper_rates
    shrink = settings[Stage.SHRINK_MRPC]
    assert (shrink["batch_size"], shrink["epochs"], shrink["optimizer"], shrink["warmup"]) == (64, 10, "adam", 0.1)


ISTAR_STAGES = {Stage.ISTAR_TUNING, Stage.ISTAR_SEEDS}
TOKENS = ISTAR_STAGES | {Stage.ISTAR_COSREG}
RUDMAN = TOKENS | {Stage.ISTAR_SEARCH}
KUDRIASHOV = {Stage.SHRINK_MRPC, Stage.SHRINK_COLA}


@pytest.mark.parametrize(
    ("sentence", "stages"),
    [
        ("ζ weighs the shrinkage covariance, as in Algorithm 1, the poster and the code; the text’s sec", ISTAR_STAGES),
        ("Padding is not counted here. The code counts it among the tokens", TOKENS),
        ("Two batches are averaged into one step, as the paper says; the public code has no accumulation.", RUDMAN),
        ("Seeds also order the training rows; the code orders them by a seed that is always 0.", RUDMAN),
        ("over 10% of the steps, as in the code; then a constant rate, since the text names no decay.", KUDRIASHOV),
        ("The code has AdamW and a cosine.", KUDRIASHOV),
        ("The code keeps one bar too many.", KUDRIASHOV),
        ("other bars is left alone, as in the text; the code’s notebook makes them longer.", KUDRIASHOV),
    ],
)
def test_stages_state_where_paper_and_code_differ(sentence, stages):
    assert {stage for stage, preset in PRESETS.items() if sentence in " ".join(preset.differs)} == stages


def test_stages_set_options_they_state():
    settings = {stage: preset.settings for stage, preset in PRESETS.items()}
    for stage in KUDRIASHOV:
        assert (settings[stage]["optimizer"], settings[stage]["schedule"]) == ("adam", "constant")
        assert settings[stage]["entropy_cluster_weight"] == 0.0
    assert all(settings[stage]["accumulation"] == 2 for stage in RUDMAN)
    assert not any(settings[stage].get("include_padding") for stage in TOKENS)
    assert all(preset.models for preset in PRESETS.values())
