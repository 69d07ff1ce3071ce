"""Send logged steps to the dashboard from a separate thread, so that training never waits for the server."""

import json
import sys
import time
from collections.abc import Mapping
from http import HTTPStatus
from threading import Condition, Thread
from typing import Any

import httpx2

from isoscope.address import error_detail, error_sentence, is_retryable, open_client, read_address
from isoscope.core.errors import InvalidError
from isoscope.plain import LONGEST_LINE

MAX_QUEUED_STEPS = 10_000  # While the server does not answer; beyond it the oldest are dropped
STEPS_AT_ONCE = 200
PREDICTIONS_AT_ONCE = 2000
BYTES_AT_ONCE = 400_000
GATHER_SECONDS = 0.5  # Between requests, so that each carries several steps
HEARTBEAT_SECONDS = 60.0
LONGEST_RETRY_SECONDS = 30.0
REQUEST_TIMEOUT_SECONDS = 20.0
MAX_NOTES = 50
NEVER_ANSWERED_SECONDS = 5.0  # Total wait at the end of a run for a server that has never answered
# Statuses that refuse the content: the server may accept a different body.
CONTENT_REFUSALS = (HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

Json = dict[str, Any]


class SendingRefusedError(Exception):
    """The server refused a request, or nothing can be sent (``status`` 0). ``field`` is that at fault, if known."""

    def __init__(self, detail: str, status: int = 0, field: str | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.field = field


class Sender:
    """Announces a run, sends its steps in order, then its end; reports each problem once.

    Retries at growing intervals if the server does not answer. Splits a refused batch until only invalid steps are
    dropped, or only excess steps if the run is full. Stops if the server refuses the run, as cancelled or invalid.
    ``url`` and ``token`` default to those of the environment; ``announcement`` begins the run and has its id.
    """

    def __init__(self, url: str | None, token: str | None, announcement: Json) -> None:
        self.url = ""
        self.refusal: SendingRefusedError | None = None
        self.end_refusal: str | None = None  # Why the server refused the end, if it may accept a corrected one
        self.n_dropped_steps = 0  # The queue was full, or the server refused them
        self._is_full = False  # The server accepts no more steps of this run, only heartbeats
        self._newest_step = -1
        self._announcement = announcement
        self._is_announced = False
        self._has_answered = False
        self._has_end_arrived = False
        self._seconds_for_first_answer = NEVER_ANSWERED_SECONDS
        self._steps: dict[int, Json] = {}
        self._predictions: list[Json] = []
        self._n_refused_predictions = 0
        self._ending: Json | None = None  # The end of the run, once requested
        self._changed = Condition()
        self._warnings: set[str] = set()
        try:
            address = read_address(url, token)
            client = open_client(address, REQUEST_TIMEOUT_SECONDS)
        except InvalidError as error:
            self._give_up(SendingRefusedError(str(error)))
            return
        self.url = address.url
        Thread(target=self._send_until_over, args=(client,), name="isoscope", daemon=True).start()

    def is_ended(self) -> bool:
        """Return whether the end of the run was requested, and was not refused for its content."""
        return self._ending is not None

    def put(self, step: int, values: Mapping[str, Any]) -> None:
        """Queue values of a step; merge those of the same step: layers by measure, and reasons into one line."""
        with self._changed:
            if not self._accepts_values():
                return
            is_repeated = step == self._newest_step
            self._newest_step = step
            if self._is_full:
                self.n_dropped_steps += not is_repeated
                return
            queued = self._steps.get(step, {"step": step})
            merged = {**queued, **values}
            if "layers" in merged:
                merged["layers"] = {**queued.get("layers", {}), **values.get("layers", {})}
            if reasons := [logged["reason"] for logged in (queued, values) if "reason" in logged]:
                merged["reason"] = "; ".join(reasons)[:LONGEST_LINE]
            self._steps[step] = merged
            if len(self._steps) > MAX_QUEUED_STEPS:
                self._steps.pop(next(iter(self._steps)))
                self.n_dropped_steps += 1
            self._changed.notify()

    def put_predictions(self, columns: Mapping[str, list[Any]]) -> None:
        """Queue predictions, given as columns of equal length, in chunks of ``PREDICTIONS_AT_ONCE`` rows."""
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            self.warn_once(
                f"predictions were not logged: their columns have {sorted(lengths)} values, not equally many"
            )
            return
        chunks = [
            {name: column[start : start + PREDICTIONS_AT_ONCE] for name, column in columns.items()}
            for start in range(0, max(lengths, default=0), PREDICTIONS_AT_ONCE)
        ]
        with self._changed:
            if not self._accepts_values():
                return
            self._predictions += chunks
            self._changed.notify()

    def end(self, ending: Json, seconds: float) -> bool:
        """Send the queued steps and the end of the run, waiting up to ``seconds``; return whether all has arrived.

        Later calls keep the first end, unless the server refused it, and wait again.
        """
        with self._changed:
            if self._ending is None and self.refusal is None:
                self._ending, self.end_refusal = ending, None
            self._changed.notify_all()
            waited_seconds = min(seconds, self._seconds_for_first_answer)
            is_over = self._changed.wait_for(self._is_over, waited_seconds)
            if self._has_answered:
                is_over = is_over or self._changed.wait_for(self._is_over, seconds - waited_seconds)
                waited_seconds = seconds
            else:
                self._seconds_for_first_answer -= waited_seconds
            if waited_seconds and not is_over:
                loss_warning = f"{len(self._steps)} steps and the end are lost if the script ends before it does"
                self.warn_once(f"the dashboard has not answered for {waited_seconds:g} s; {loss_warning}")
            return self._has_end_arrived

    def warn_once(self, sentence: str) -> None:
        if sentence not in self._warnings:
            self._warnings.add(sentence)
            sys.stderr.write(f"isoscope: {sentence}\n")

    def _accepts_values(self) -> bool:
        """Return whether values can be queued; warn if the run has ended."""
        if self.refusal is None and self.is_ended():
            self.warn_once("what is logged after the end of a run is let go")
        return self.refusal is None and not self.is_ended()

    def _is_over(self) -> bool:
        """Return whether the end has arrived or was refused, or nothing more can be sent."""
        return self._has_end_arrived or self.refusal is not None or self.end_refusal is not None

    def _give_up(self, error: SendingRefusedError) -> None:
        self.warn_once(f"this run is no longer logged: {error}")
        with self._changed:
            self.refusal = error
            self._steps.clear()
            self._predictions.clear()
            self._changed.notify_all()

    def _send_until_over(self, client: httpx2.Client) -> None:
        try:
            with client:
                self._client = client
                retry_seconds, is_end_sent = 0.0, False
                while not is_end_sent:
                    self._wait_for_values(retry_seconds)
                    try:
                        is_end_sent = self._send()
                        retry_seconds = 0.0
                    except httpx2.TransportError as error:
                        self.warn_once(f"the dashboard at {self.url} does not answer ({error}); steps wait for it")
                        retry_seconds = min(max(1.0, 2 * retry_seconds), LONGEST_RETRY_SECONDS)
            with self._changed:
                self._has_end_arrived = True
                self._changed.notify_all()
        except SendingRefusedError as error:
            self._give_up(error)
        except Exception as error:  # noqa: BLE001 - the script reports any error and keeps training
            self._give_up(SendingRefusedError(f"{type(error).__name__}: {error}"))

    def _wait_for_values(self, retry_seconds: float) -> None:
        """Wait for values or the next heartbeat, then gather more for at least ``retry_seconds``, or until the end."""
        with self._changed:
            has_queued_values = self._steps or self._predictions
            if not has_queued_values and self._ending is None and self._is_announced:
                self._changed.wait(HEARTBEAT_SECONDS)
            if self._ending is None:
                self._changed.wait_for(lambda: self._ending is not None, max(GATHER_SECONDS, retry_seconds))
        if retry_seconds:
            time.sleep(min(retry_seconds, 1.0))  # even at the end, so that retries do not follow at once

    def _send(self) -> bool:
        """Send everything queued, or a heartbeat if nothing is; return whether the end of the run was accepted."""
        if not self._is_announced:
            self._post("/api/runs", self._announcement)
            self._is_announced = True
        needs_heartbeat = True
        while batch := self._next_batch():
            needs_heartbeat = False
            self._send_steps(batch)
        while self._predictions:
            needs_heartbeat = False
            # Predictions refused for their content are dropped, and counted in the notes of the run.
            chunk = self._predictions[0]
            try:
                self._post(f"/api/runs/{self._announcement['id']}/predictions", chunk)
            except SendingRefusedError as error:
                if error.status not in CONTENT_REFUSALS:
                    raise
                self.warn_once(f"predictions were refused: {error}")
                self._n_refused_predictions += len(chunk["rows"])
            with self._changed:
                self._predictions = [queued_chunk for queued_chunk in self._predictions if queued_chunk is not chunk]
        ending = self._ending
        if ending is None:
            if needs_heartbeat:
                self._send_steps([])
            return False
        return self._send_end(ending)

    def _next_batch(self) -> list[Json]:
        """Return copies of the oldest queued steps, as many as one request takes; they stay queued."""
        batch: list[Json] = []
        size = 0
        with self._changed:
            for step in self._steps.values():
                size += len(json.dumps(step))
                if batch and (size > BYTES_AT_ONCE or len(batch) == STEPS_AT_ONCE):
                    break
                batch.append(dict(step))
        return batch

    def _send_steps(self, batch: list[Json]) -> None:
        """Send steps, or a heartbeat for an empty batch; halve refused batches to drop only invalid steps."""
        if batch and self._is_full:  # the first half of a split batch filled the run
            return
        try:
            self._post(f"/api/runs/{self._announcement['id']}/steps", {"steps": batch})
        except SendingRefusedError as error:
            if error.status not in CONTENT_REFUSALS:
                raise
            if len(batch) > 1:
                self._send_steps(batch[: len(batch) // 2])
                self._send_steps(batch[len(batch) // 2 :])
                return
            self.warn_once(f"steps were refused: {error}")
            with self._changed:
                if (error.status, error.field) == (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "steps"):
                    self._is_full = True
                    self.n_dropped_steps += len(self._steps)
                    self._steps.clear()
                else:
                    self.n_dropped_steps += len(batch)
        with self._changed:
            for sent_step in batch:
                if self._steps.get(sent_step["step"]) == sent_step:  # no values were added in between
                    del self._steps[sent_step["step"]]

    def _send_end(self, ending: Json) -> bool:
        """Send the end with notes of losses; return False if its content is refused, so that another can follow."""
        body = ending
        loss_notes = [
            f"{n} {noun} were not logged."
            for n, noun in ((self.n_dropped_steps, "steps"), (self._n_refused_predictions, "predictions"))
            if n
        ]
        if loss_notes:
            body = {**ending, "notes": [*loss_notes, *ending.get("notes", [])][:MAX_NOTES]}
        try:
            self._post(f"/api/runs/{self._announcement['id']}/finish", body)
        except SendingRefusedError as error:
            if error.status not in CONTENT_REFUSALS or "error" in ending:
                raise
            self.warn_once(f"what came out of this run was refused: {error}")
            with self._changed:
                self._ending, self.end_refusal = None, str(error)
                self._changed.notify_all()
            return False
        return True

    def _post(self, path: str, body: Json) -> None:
        """Send a request; raise TransportError if it may succeed later, SendingRefusedError if it will not."""
        response = self._client.post(path, json=body)
        if is_retryable(response) or response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise httpx2.TransportError(f"status {response.status_code}")
        self._has_answered = True
        if not response.is_success:
            _, field = error_detail(response) or ("", None)
            raise SendingRefusedError(error_sentence(response), response.status_code, field)
