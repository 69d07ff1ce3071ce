from math import nan

import pytest
from pydantic import ValidationError
from sqlalchemy import create_engine, insert, select, text
from sqlalchemy.exc import StatementError

from app.db.models import Experiment, Run
from app.db.models.base import Base
from app.db.run_results import RunResults
from tests.factories import PLAIN, SHARED, run_row

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
