"""Runs of one's own training loop over the API, request by request; ``isoscope.log_run`` does this beside the loop."""

from collections.abc import Iterable, Mapping
from typing import Any

from isoscope.remote.connection import Connection, Known, Row, path_of


class ScriptRuns(Connection):
    """Runs that no worker touches."""

    def begin_run(self, told: Mapping[str, Any]) -> Row:
        """Announce a run: experiment, dataset, model, task, metric, regularizer, lam, zeta, seed, settings."""
        answer: Row = self.ask("POST", "/api/runs", json=dict(told))
        return answer

    def log_steps(self, run: Known, steps: Iterable[Mapping[str, Any]]) -> Row:
        """Log steps of a run; none of them says that its script still trains.

        >>> isoscope.log_steps(run, [{"step": 1, "task_loss": 0.7, "penalty": -0.1}])
        """
        answer: Row = self.ask("POST", path_of("runs", run, "steps"), json={"steps": [dict(one) for one in steps]})
        return answer

    def log_predictions(self, run: Known, predictions: Mapping[str, Any]) -> Row:
        """Log what a run predicted for up to 10,000 validation rows: columns of one length.

        >>> isoscope.log_predictions(run, {"rows": [0, 1], "reference": [1, 0], "predicted": [1, 1]})
        """
        answer: Row = self.ask("POST", path_of("runs", run, "predictions"), json=dict(predictions))
        return answer

    def finish_run(self, run: Known, ending: Mapping[str, Any]) -> Row:
        """End a run with its ``metrics``, or with the ``error`` that ended it."""
        answer: Row = self.ask("POST", path_of("runs", run, "finish"), json=dict(ending))
        return answer
