"""Log runs of your own training loop to the dashboard.

    run = isoscope.log_run("my sweep", dataset="reviews", model="bert", metric="accuracy", lam=-1.0, ...)
    for step, batch in enumerate(batches):
        ...
        run.step(step, task_loss=loss.item(), penalty=penalty.item())
    run.finish({"accuracy": 0.9})

Nothing here waits for the server or raises because of it: see ``isoscope.sending``.
"""

import atexit
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from isoscope.plain import to_json_list, to_json_value, to_layer_numbers, to_line, to_number, to_snake_case
from isoscope.sending import MAX_NOTES, Sender

ENDED_SILENTLY = "Its script ended before it finished this run."
SECONDS_TO_FINISH = 30.0
SECONDS_AT_EXIT = 5.0
LONGEST_REASON = 500  # Characters of one call of ``step``

# Values of each measure by layer, first transformer layer first; None where a value is undefined.
Layers = Mapping[str, Sequence[float | None]]


def log_run(
    experiment: str,
    *,
    dataset: str,
    model: str,
    metric: str,
    task: str = "classification",
    regularizer: str | None = None,
    lam: float = 0.0,
    zeta: float | None = None,
    seed: int,
    settings: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    total_steps: int | None = None,
    probe: Mapping[str, int] | None = None,
    url: str | None = None,
    token: str | None = None,
) -> "LoggedRun":
    """Begin a run in the dashboard and return it; it is announced from another thread.

    Args:
        experiment: name that groups runs to compare.
        dataset: name of the data set; its rows are not sent.
        model: name of the model.
        metric: measure of performance: accuracy, f1, matthews, pearson, spearman, exact_match or word_f1.
        task: classification, regression or span.
        regularizer: a name in ``isotropy.catalog.REGULARIZERS``, such as istar; None for plain training.
        lam: strength of the penalty, positive or negative.
        zeta: shrinkage of I-STAR, in [0, 1].
        seed: runs that differ only by their seed are repetitions.
        settings: everything else that distinguishes runs, by name. Names of training options of Isoscope
            (learning_rate, batch_size, epochs ...) are those options; the others are shown as unknown.
        environment: shown with the run; does not distinguish runs.
        total_steps: number of optimizer steps, to show progress.
        probe: ``{"tokens": n, "texts": n}`` that layers are measured on.
        url: address of the dashboard; else ``ISOSCOPE_URL``, else port 8000 of this machine.
        token: access token of the dashboard; else ``ISOSCOPE_ACCESS_TOKEN``, else none.

    """
    announcement = {
        "id": uuid4().hex, "experiment": experiment, "dataset": dataset, "model": model, "task": task, "metric": metric,
        "regularizer": regularizer or "none", "lam": lam, "zeta": zeta, "seed": seed,
        "settings": {to_snake_case(name): value for name, value in (settings or {}).items()},
        "environment": {to_snake_case(name): str(value) for name, value in (environment or {}).items()},
        "total_steps": total_steps, "probe": None if probe is None else dict(probe),
    }  # fmt: skip
    announcement = to_json_value(announcement)
    return LoggedRun(announcement, Sender(url, token, announcement))


class LoggedRun:
    """A run that this process logs. As a context manager, it fails if its block raises; else end it by ``finish``."""

    def __init__(self, announcement: Mapping[str, Any], sender: Sender) -> None:
        self.id = str(announcement["id"])
        self.url = f"{sender.url}/runs/{self.id}"
        self._sender = sender
        self._exit_callback: Callable[[float], object] | None = None
        atexit.register(self._end_at_exit)

    @property
    def cancelled(self) -> bool:
        """Return whether the run was cancelled in the dashboard; a script may then stop."""
        refusal = self._sender.refusal
        return refusal is not None and (refusal.status, refusal.field) == (HTTPStatus.CONFLICT, "status")

    def at_exit(self, callback: Callable[[float], object]) -> None:
        """Register a callback for process exit, called with the seconds it may wait, unless the run ended before."""
        self._exit_callback = callback

    def step(
        self, step: int, *, task_loss: float | None = None, penalty: float | None = None, layers: Layers | None = None
    ) -> None:
        """Log values of an optimizer step, in one call or several. NaN and infinity are null, with a reason."""
        values: dict[str, Any] = {}
        reasons: list[str] = []
        for name, value in (("task_loss", task_loss), ("penalty", penalty)):
            if value is not None:
                values[name] = to_number(value, name, reasons)
        if layers is not None:
            values["layers"] = {
                measure: to_layer_numbers(measure, layer_values, reasons) for measure, layer_values in layers.items()
            }
        if reasons:
            values["reason"] = "; ".join(reasons)[:LONGEST_REASON]
        self._sender.put(int(step), to_json_value(values))

    def log_predictions(
        self,
        *,
        rows: Sequence[int] | None = None,
        reference: Sequence[float] | None = None,
        predicted: Sequence[float] | Sequence[str],
        exact_match: Sequence[float] | None = None,
        f1: Sequence[float] | None = None,
    ) -> None:
        """Log predictions for validation rows, before ``finish`` and in as many calls as needed.

        They allow comparing runs row by row, and with the best constant prediction. NaN and infinity are refused.

        Args:
            rows: positions in the validation rows, from 0, the same for every run; without them the first n.
            reference: right classes as whole numbers, or right numbers; nothing for task "span".
            predicted: predicted classes as whole numbers, numbers, or answers.
            exact_match: for task "span": 1 where an answer is exactly right, else 0.
            f1: for task "span": F1 of the words of each answer.

        """
        columns = {"reference": reference, "predicted": predicted, "exact_match": exact_match, "f1": f1}
        json_columns = {name: to_json_list(column) for name, column in columns.items() if column is not None}
        row_positions = list(range(len(json_columns["predicted"]))) if rows is None else to_json_list(rows)
        self._sender.put_predictions({"rows": row_positions, **json_columns})

    def finish(
        self,
        metrics: Mapping[str, float | None] | None = None,
        *,
        isoscore_star: float | None = None,
        isoscore_star_reason: str | None = None,
        n_validation: int | None = None,
        by_layer: Layers | None = None,
        by_layer_n: Mapping[str, int] | None = None,
        by_layer_reasons: Mapping[str, Sequence[str | None]] | None = None,
        results: Mapping[str, float | str | bool] | None = None,
        notes: Sequence[str] = (),
        timeout: float = SECONDS_TO_FINISH,
    ) -> bool:
        """End the run with its results, and wait for the dashboard; return whether everything has arrived.

        If the dashboard refuses the results, a warning says why, and this may be called again with others; otherwise
        the run fails with that reason when the script ends. Sending goes on after ``timeout``; call again to wait.

        Args:
            metrics: on the validation rows, by name; that of the experiment is the performance.
            isoscore_star: IsoScore★ of the trained model, in [0, 1].
            isoscore_star_reason: why IsoScore★ is undefined, if it is.
            n_validation: number of validation rows.
            by_layer: measures of the trained model's layers.
            by_layer_n: number of points of each of these measures.
            by_layer_reasons: for each layer of a measure, why it is None; None if it is defined.
            results: other results, by name.
            notes: shown with the run.
            timeout: seconds to wait at most; five in all for a dashboard that has never answered.

        """
        reasons: list[str] = []
        scores = {to_snake_case(name): to_number(value, name, reasons) for name, value in (metrics or {}).items()}
        score_reasons = {name: f"{name} is not a finite number" for name, score in scores.items() if score is None}
        ending = {
            "metrics": scores,
            "metric_reasons": score_reasons,
            "isoscore_star": to_number(isoscore_star, "IsoScore★", reasons),
            "isoscore_star_reason": isoscore_star_reason and to_line(isoscore_star_reason),
            "n_validation": n_validation,
            "by_layer": {
                measure: {
                    "values": to_layer_numbers(measure, layer_values, reasons),
                    "n": (by_layer_n or {}).get(measure),
                    "reasons": [reason and to_line(reason) for reason in (by_layer_reasons or {}).get(measure, ())]
                    or None,
                }
                for measure, layer_values in (by_layer or {}).items()
            },
            "results": {to_snake_case(name): value for name, value in (results or {}).items()},
            "notes": [to_line(note) for note in (*notes, *reasons)][:MAX_NOTES],
        }
        return self._end(ending, timeout)

    def fail(self, error: str, timeout: float = SECONDS_TO_FINISH) -> bool:
        """End the run as failed, waiting up to ``timeout`` seconds; return whether everything has arrived."""
        return self._end({"error": to_line(error) or ENDED_SILENTLY}, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            self.fail(f"{type(error).__name__}: {error}")

    def _end(self, ending: dict[str, Any], seconds: float) -> bool:
        """Send the end of the run; return whether everything has arrived, so that nothing is left to do at exit."""
        has_arrived = self._sender.end(to_json_value(ending), seconds)
        if has_arrived:
            atexit.unregister(self._end_at_exit)
        return has_arrived

    def _end_at_exit(self) -> None:
        """End the run at process exit if it has not ended yet, and wait briefly for the end to arrive."""
        if self._exit_callback is not None and not self._sender.is_ended():
            self._exit_callback(SECONDS_AT_EXIT)
            if self._sender.is_ended():
                return
        self._end({"error": to_line(self._sender.end_refusal or ENDED_SILENTLY)}, SECONDS_AT_EXIT)
