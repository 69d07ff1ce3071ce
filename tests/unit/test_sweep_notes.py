import pytest

from app.db.config import RunConfig
from app.db.models import Dataset
from app.training.grid_expansion import build_product
from app.training.presets import PRESETS, misfit_warning
from app.training.sweeps import SweepRequest, list_plan_notes, list_row_notes
from isoscope.files.columns import Column
from isotropy.catalog import Regularizer

LAMBDAS = [-1.0, -0.3, 0.0, 0.3, 1.0]


def list_notes(repeated=0, **changed):
    ranges = {"lambdas": LAMBDAS, "zetas": [0.2], "seeds": [0, 1, 2], "grid": {}}
    request = SweepRequest.model_construct(**(ranges | changed))
    factors = build_product({}, [Regularizer.ISTAR], frozenset(), request.lambdas, request.seeds)
    return list_plan_notes(request, factors, repeated)


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
    factors = build_product({}, [], frozenset(), request.lambdas, request.seeds)
    assert list_plan_notes(request, factors, 0) == ["No regularizer is selected, so all runs are baselines."]
    factors = build_product({}, [Regularizer.ISTAR], frozenset(), [-1, 1], [0])
    assert factors.describe(1) == "(1 baseline + I-STAR × 2 λ) × 1 seed − 1 repeated = 2 runs"
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
