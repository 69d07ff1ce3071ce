import json

import pytest
from pydantic import ValidationError

from app.db.config import RunConfig, TrainingOptions
from app.db.models import Experiment, Run
from app.db.models.runs import CONFIG
from app.db.reported_config import OPTION_TYPES, RESERVED_NAMES, UNKNOWN, ReportedConfig, ReportedRunConfig
from app.db.types import stored_adapter
from isotropy.catalog import Regularizer, TokenPooling
from tests.factories import OPTIONS

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
    assert (REPORTED.points, REPORTED.label_names, REPORTED.weights) == (TokenPooling.MEAN, ["no", "yes"], {})


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
    assert run.config.weights == {Regularizer.ISTAR: 0.5, Regularizer.COSREG: 0.1}
    assert Experiment(config=REPORTED.dump()).logged
    with pytest.raises(TypeError, match="its script reported"):
        _ = Run(id="s", config=REPORTED).launched_config
