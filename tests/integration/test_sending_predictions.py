"""Predictions that a script logs: sent beside its steps, and never a reason for it to stop."""

import numpy as np

from isoscope import sending
from isoscope.track import log_run

TOLD = {"dataset": "words", "model": "mine", "metric": "accuracy", "seed": 0}


def test_arrays_are_sent_in_parts_before_the_end(server, monkeypatch):
    monkeypatch.setattr(sending, "PREDICTIONS_AT_ONCE", 2)
    run = log_run("e", url=server.url, **TOLD)
    run.log_predictions(reference=np.array([1, 0, 1]), predicted=np.array([1, 1, 1]))
    run.log_predictions(rows=[7], reference=[np.int64(0)], predicted=[True])
    assert run.finish({"accuracy": 0.5})
    assert server.bodies("predictions") == [
        {"rows": [0, 1], "reference": [1, 0], "predicted": [1, 1]},
        {"rows": [2], "reference": [1], "predicted": [1]},
        {"rows": [7], "reference": [0], "predicted": [True]},
    ]
    assert "notes" not in server.bodies("finish")[0] or server.bodies("finish")[0]["notes"] == []


def test_refused_predictions_and_columns_that_differ_in_length_are_let_go_said_and_counted(server, capsys):
    run = log_run("e", url=server.url, **TOLD)
    run.log_predictions(rows=[0, 1, 2], reference=[0, 1], predicted=[0, 1])
    assert run.finish({"accuracy": 0.5})
    assert server.bodies("predictions") == []
    assert "predictions were not logged: their columns have [2, 3] values" in capsys.readouterr().err
    usual = server.answer

    def answer(path, *rest):
        if path == "predictions":
            return 422, {"detail": "Expected finite numbers.", "field": "predicted"}
        return usual(path, *rest)

    server.answer = answer
    run = log_run("e", url=server.url, **TOLD)
    run.log_predictions(reference=[0.0, 1.0], predicted=[float("nan"), 1.0])
    assert run.finish({"accuracy": 0.5})
    assert capsys.readouterr().err == "isoscope: predictions were refused: Expected finite numbers.\n"
    assert server.bodies("finish")[-1]["notes"] == ["2 predictions were not logged."]
