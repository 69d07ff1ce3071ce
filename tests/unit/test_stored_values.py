import json
import pickle
import zlib
from contextlib import suppress
from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sqlalchemy import create_engine, insert, select, text
from sqlalchemy.exc import StatementError

from app.db.config import RunConfig, TrainingOptions
from app.db.models import Experiment, Run
from app.db.models.base import Base
from app.db.models.runs import CONFIG
from app.db.predictions import HEADER, MAX_ROWS, Predictions
from app.db.reported_config import OPTION_TYPES, RESERVED_NAMES, UNKNOWN, ReportedConfig, ReportedRunConfig
from app.db.run_results import RunResults
from app.db.types import stored_adapter
from isoscope.core.task import TaskKind
from isotropy.catalog import Regularizer, TokenPooling
from tests.factories import OPTIONS, PLAIN, SHARED, run_row

LAUNCHED = RunConfig(
    **OPTIONS | {"label_names": ['"logged": true', "1"]}, regularizer="istar", lam=0.5, seed=3, layers=[2, 1],
    points="mean", fixed_regularizers={"cosreg": 0.1},
)  # fmt: skip
STATED = {
    "logged": True, "model": "m", "task": "classification", "metric": "accuracy", "points": "mean",
    "regularizer": "none", "lam": 0, "seed": 1, "learning_rate": 1e-3, "says": "a setting of its own",
    "label_names": ["no", "yes"],
}  # fmt: skip
REPORTED = ReportedRunConfig(**STATED)


@pytest.mark.parametrize("config", [LAUNCHED, REPORTED], ids=["launched", "reported"])
def test_stored_config_reads_back_unchanged(config):
    document = config.dump()
    for read in (CONFIG.read(document), CONFIG.read_text(json.dumps(document)), CONFIG.check(document)):
        assert read == config
        assert read.dump() == document
        assert [type(value) for value in dict(read).values()] == [type(value) for value in dict(config).values()]


def test_configs_of_other_versions_read_with_defaults():
    document = LAUNCHED.dump()
    for name in ("export", "fixed_regularizers", "evaluation_zeta"):
        del document[name]
    read = CONFIG.read_text(json.dumps(document))
    assert (read.export, read.fixed_regularizers, read.evaluation_zeta) == (False, {}, 0.0)
    assert read.fixed_regularizers is not CONFIG.read_text(json.dumps(document | {"seed": 8})).fixed_regularizers
    text = json.dumps(LAUNCHED.dump())
    read = CONFIG.read_text(text)
    assert CONFIG.read_text(text) is read
    with pytest.raises(ValidationError, match="frozen"):
        read.seed = 8
    document = LAUNCHED.dump() | {"batch_size": 100_000, "of_a_newer_version": 1}
    assert stored_adapter(RunConfig).validate_python(document).batch_size == 100_000
    with pytest.raises(ValidationError, match="batch_size"):
        CONFIG.check(document)


def test_reported_config_omits_unreported_settings():
    assert REPORTED.dump() == STATED
    assert not REPORTED.has_value("batch_size")
    assert REPORTED.value("batch_size", UNKNOWN) == UNKNOWN
    assert REPORTED.value("says") == "a setting of its own"
    assert (REPORTED.points, REPORTED.label_names, REPORTED.penalty_weights) == (TokenPooling.MEAN, ["no", "yes"], {})


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"learning_rate": -1}, "learning_rate is one of Isoscope's settings"),
        ({"points": "words"}, "points is one of Isoscope's settings"),
        ({"own": UNKNOWN}, "expected a own other than 'unknown'"),
        ({"own": {"a": 1}}, "own"),
        ({"Own": 1}, "Own"),
    ],
)
def test_invalid_reported_setting_is_refused_by_name(settings, sentence):
    with pytest.raises(ValidationError, match=sentence):
        ReportedConfig(logged=True, model="m", task="classification", metric="accuracy", **settings)


def test_reported_settings_have_types_of_training_options():
    option_names = set(ReportedRunConfig.model_fields) - RESERVED_NAMES
    assert option_names <= set(OPTION_TYPES)
    for name in option_names:
        option = TrainingOptions.model_fields[name].annotation
        assert ReportedRunConfig.model_fields[name].annotation in (option, option | None)


def test_run_reads_json_config_and_reported_run_is_not_launched():
    run = Run(id="r", config=LAUNCHED.dump())
    assert run.launched_config == LAUNCHED
    assert run.config.penalty_weights == {Regularizer.ISTAR: 0.5, Regularizer.COSREG: 0.1}
    assert Experiment(config=REPORTED.dump()).logged
    with pytest.raises(TypeError, match="its script reported"):
        _ = Run(id="s", config=REPORTED).launched_config


FORMER = {
    "metrics": {"accuracy": nan}, "loss": 0.5, "tokens": 9, "zeta": 0.0, "layers": [0.25, None],
    "layer_reasons": [None, "constant"], "reference": {"zeta": 0.75, "layers": [nan]}, "of_another_version": {"a": [1]},
}  # fmt: skip


@pytest.fixture
def rows():
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with engine.connect() as connection:
        yield connection


def test_results_of_earlier_version_are_read():
    results = RunResults.model_validate(FORMER)
    assert (results.metrics, results.reference.layers, results.layers) == ({"accuracy": None}, [None], [0.25, None])
    assert results.dump() == FORMER | {"metrics": {"accuracy": None}, "reference": {"zeta": 0.75, "layers": [None]}}
    document = {"metrics": {"f1": 0.5}, "by_layer": {}, "constant_prediction": None, "further": {"rougeL": 1}}
    assert RunResults.model_validate(document).dump() == document


@pytest.mark.parametrize("wrong", [{}, {"metrics": {"luck": 1}}, {"metrics": {}, "loss": "low"},
                                   {"metrics": {}, "by_layer": {"a": {"values": [1]}}},
                                   {"metrics": {}, "by_layer": {"a": {"values": [1], "reasons": []}}},
                                   {"metrics": {}, "divergence": {"start": 1, "loss": 2, "end": 3}}])  # fmt: skip
def test_invalid_results_are_refused(rows, wrong):
    with pytest.raises(ValidationError):
        run_row(results=wrong)
    columns = {"experiment_id": "e", "position": 0, "config": PLAIN, "regularizer": "none", "lam": 0, "zeta": 0}
    with pytest.raises((StatementError, ValidationError)):
        rows.execute(insert(Run).values(**columns, seed=0, results=wrong))


def test_results_are_stored_as_json_that_queries_can_read(rows):
    results = {"metrics": {"accuracy": 0.5}, "by_layer": {"twonn": {"values": [1.5], "reasons": [None]}}}
    columns = {"id": "e", "name": "e", "dataset_id": "d", "config": SHARED, "grid": {}, "origin": "launched"}
    rows.execute(insert(Experiment).values(**columns))
    columns = {"experiment_id": "e", "position": 0, "config": PLAIN, "regularizer": "none", "lam": 0, "zeta": 0}
    rows.execute(insert(Run).values(**columns, seed=0, results=RunResults(**results)))
    assert rows.execute(text("select json_extract(results, '$.metrics.accuracy') from runs")).scalar() == 0.5
    assert rows.execute(select(Run.results["metrics"])).scalar() == {"accuracy": 0.5}
    assert rows.execute(select(Run.results[("by_layer", "twonn")])).scalar() == results["by_layer"]["twonn"]
    assert rows.execute(select(Run.results)).scalar() == RunResults(**results)
    rows.execute(text('update runs set results = \'{"metrics": {"f1": NaN}}\''))
    assert rows.execute(select(Run.results)).scalar().metrics == {"f1": None}


def labels(rows=(0, 3, 7), reference=(0, 1, 1), predicted=(0, 1, 0)):
    return Predictions(*(np.array(column, dtype=np.int64) for column in (rows, reference, predicted)))


def numbers(reference=(0.5, 1.25, -3.0), predicted=(0.1, 1e-30, 1e30)):
    return Predictions(np.arange(3), np.array(reference), np.array(predicted))


def answers(texts=("a name", "", "zwei Wörter")):
    return Predictions(np.arange(3) * 5, None, texts, np.array([1.0, 0.0, 0.0]), np.array([1.0, 0.0, 2 / 3]))


def columns(packed):
    return [None if column is None else [*column] for column in
            (packed.rows, packed.reference, packed.predicted, packed.exact_match, packed.f1)]  # fmt: skip


@pytest.mark.parametrize("predictions", [labels(), numbers(), answers()], ids=["labels", "numbers", "answers"])
def test_predictions_survive_packing(predictions):
    unpacked = Predictions.unpack(predictions.pack())
    assert columns(unpacked) == columns(predictions)
    assert (unpacked.kind, unpacked.rows.dtype) == (predictions.kind, np.int64)


def test_kind_follows_from_columns_and_labels_pack_small():
    assert [packed.kind for packed in (labels(), numbers(), answers())] == list(TaskKind)
    drawn = np.random.default_rng(0).integers(0, 2, (2, 10_000))
    assert len(Predictions(np.arange(10_000), *drawn).pack()) < 6_000


@given(st.lists(st.integers(0, 2**40), min_size=1, unique=True), st.data())
def test_any_labels_survive_packing(rows, data):
    values = data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=len(rows), max_size=len(rows)))
    predictions = labels(sorted(rows), values, values[::-1])
    assert columns(Predictions.unpack(predictions.pack())) == columns(predictions)


@given(st.lists(st.text(), min_size=3, max_size=3))
def test_any_answers_survive_packing(texts):
    assert Predictions.unpack(answers(tuple(texts)).pack()).predicted == tuple(texts)


@pytest.mark.parametrize(
    ("predictions", "constant"),
    [(labels(predicted=(1, 1, 1)), 1), (labels(), None), (numbers(predicted=(2.5, 2.5 + 1e-7, 2.5)), 2.5),
     (numbers(), None), (answers(("", "", "")), ""), (answers(), None)],
)  # fmt: skip
def test_constant_predictions_are_detected(predictions, constant):
    assert predictions.constant == constant


@pytest.mark.parametrize(
    ("make", "keyword"),
    [
        (lambda: labels((3, 0, 7)), "ascending"),
        (lambda: labels((0, 0, 7)), "ascending"),
        (lambda: labels((-1, 0, 7)), "ascending"),
        (lambda: labels((0, 1)), "one length"),
        (lambda: labels((), (), ()), "1 to"),
        (lambda: numbers((0.0, np.nan, 1.0)), "finite"),
        (lambda: numbers(predicted=(0.0, np.inf, 1.0)), "finite"),
        (lambda: Predictions(np.arange(3), np.zeros(3), np.zeros(3, dtype=np.int64)), "same type"),
        (lambda: Predictions(np.arange(3), None, np.zeros(3)), "reference"),
        (lambda: Predictions(np.arange(3), None, ("a", "b", "c")), "exact_match"),
        (lambda: Predictions(np.arange(3), None, ("a", "b", "c"), np.full(3, 2.0), np.ones(3)), "from 0 to 1"),
        (lambda: Predictions(np.arange(3.0), np.zeros(3), np.zeros(3)), "int64"),
        (lambda: Predictions(np.arange(4).reshape(2, 2), np.zeros(2), np.zeros(2)), "float64"),
    ],
)
def test_invalid_columns_are_refused(make, keyword):
    with pytest.raises(ValueError, match=keyword):
        make()


BODY = HEADER.size
GOOD = labels().pack()


@pytest.mark.parametrize(
    ("data", "keyword"),
    [
        (b"", "too few bytes"),
        (pickle.dumps([1, 2, 3]), "something else"),
        (b"ISP1" + bytes([9]) + GOOD[5:], "something else"),
        (HEADER.pack(b"ISP1", 0, MAX_ROWS + 1) + GOOD[BODY:], "rows"),
        (HEADER.pack(b"ISP1", 0, 0) + GOOD[BODY:], "rows"),
        (HEADER.pack(b"ISP1", 0, 2) + GOOD[BODY:], "more than"),
        (HEADER.pack(b"ISP1", 0, 4) + GOOD[BODY:], "cut off"),
        (GOOD[:-4], "cut off"),
        (GOOD + b"x", "followed by other bytes"),
        (GOOD[:BODY] + b"no zlib", "damaged"),
        (HEADER.pack(b"ISP1", 0, 3) + zlib.compress(bytes(10**8)), "more than"),
        (HEADER.pack(b"ISP1", 0, 2) + zlib.compress(np.array([0, -5, 0, 0, 0, 0]).tobytes()), "ascending"),
        (HEADER.pack(b"ISP1", 0, 2) + zlib.compress(np.array([2**62, 2**62, 0, 0, 0, 0]).tobytes()), "ascending"),
        (HEADER.pack(b"ISP1", 2, 1) + zlib.compress(np.array([0, 0, 0, 2**62]).tobytes()), "within"),
        (HEADER.pack(b"ISP1", 2, 1) + zlib.compress(np.array([0, 0, 0, 1]).tobytes() + b"\xff"), "utf-8"),
    ],
)
def test_invalid_bytes_are_refused(data, keyword):
    with pytest.raises(ValueError, match=keyword):
        Predictions.unpack(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data):
    for bytes_ in (data, GOOD[:BODY] + zlib.compress(data)):
        with suppress(ValueError):
            Predictions.unpack(bytes_)
