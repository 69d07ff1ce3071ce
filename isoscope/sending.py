"""Sends what a script logs to the dashboard, from a thread of its own: training never waits for the server."""

import json
import sys
import time
from collections.abc import Mapping
from http import HTTPStatus
from threading import Condition, Thread
from typing import Any

import httpx2

from isoscope.address import error_detail, error_sentence, is_away, open_client, read_address
from isoscope.core.errors import InvalidError
from isoscope.plain import LONGEST_LINE

MAX_KEPT = 10_000
"""Steps that wait for a server that is away; of more the oldest are let go."""
STEPS_AT_ONCE = 200
PREDICTIONS_AT_ONCE = 2000
BYTES_AT_ONCE = 400_000
GATHER_SECONDS = 0.5
BEAT_SECONDS = 60.0
LONGEST_WAIT_SECONDS = 30.0
ANSWER_SECONDS = 20.0
MAX_NOTES = 50
NEVER_ANSWERED_SECONDS = 5.0
"""A script waits no longer at its ends, all together, for a server that has never answered."""
WRONG = (HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
"""What is refused for what it says: another body may be taken."""

Json = dict[str, Any]


class RefusedError(Exception):
    """The server has understood, and says no; or nothing can be sent to it at all, which has no status."""

    def __init__(self, detail: str, status: int = 0, field: str | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.field = field
        """At fault, where a dashboard named one."""

    @property
    def is_full(self) -> bool:
        """Whether the run has as many steps as it may."""
        return (self.status, self.field) == (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "steps")


class Sender:
    """Announces a run, sends its steps in the order they were logged, then its end; says once what goes wrong.

    A server that is away is asked again, at growing intervals. Of a batch that is refused the halves are sent, so that
    one wrong step is let go and no other, and of a run that becomes full only what it has no room for. One that refuses
    the run itself, because it was cancelled or its announcement is wrong, is left in peace.

    Args:
        url: of the dashboard; else that of the environment.
        token: its access token; else that of the environment.
        announcement: what begins the run, in plain values, with the id of the run.

    """

    def __init__(self, url: str | None, token: str | None, announcement: Json) -> None:
        self.url = ""
        """Of the dashboard, if there is one to be asked."""
        self.refusal: RefusedError | None = None
        """Why nothing more is sent."""
        self.refused_end: str | None = None
        """Why the end was not taken, if another one may be."""
        self.dropped = 0
        """Steps that were let go, because too many waited or because the server refused them."""
        self._full = False
        """Whether the run takes no further step: none is sent any more, only that the script lives."""
        self._newest = -1
        self._announcement = announcement
        self._begun = False
        self._heard = False
        self._arrived = False
        self._patience = NEVER_ANSWERED_SECONDS
        self._steps: dict[int, Json] = {}
        self._predictions: list[Json] = []
        self._refused_predictions = 0
        self._ending: Json | None = None
        self._changed = Condition()
        self._warnings: set[str] = set()
        try:
            address = read_address(url, token)
            client = open_client(address, ANSWER_SECONDS)
        except InvalidError as error:
            self._give_up(RefusedError(str(error)))
            return
        self.url = address.url
        Thread(target=self._work, args=(client,), name="isoscope", daemon=True).start()

    def is_ended(self) -> bool:
        """Whether an end was told that was not refused."""
        return self._ending is not None

    def put(self, step: int, values: Mapping[str, Any]) -> None:
        """Have values of a step sent; more of the same step are added to those that wait."""
        with self._changed:
            if not self._takes():
                return
            again, self._newest = step == self._newest, step
            if self._full:
                self.dropped += not again
                return
            self._steps[step] = _merge_step(self._steps.get(step, {"step": step}), values)
            if len(self._steps) > MAX_KEPT:
                self._steps.pop(next(iter(self._steps)))
                self.dropped += 1
            self._changed.notify()

    def put_predictions(self, columns: Mapping[str, list[Any]]) -> None:
        """Have predictions sent, some thousand rows at a time; columns are as long as one another."""
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            self.warn_once(
                f"predictions were not logged: their columns have {sorted(lengths)} values, not equally many"
            )
            return
        parts = [
            {name: column[start : start + PREDICTIONS_AT_ONCE] for name, column in columns.items()}
            for start in range(0, max(lengths, default=0), PREDICTIONS_AT_ONCE)
        ]
        with self._changed:
            if not self._takes():
                return
            self._predictions += parts
            self._changed.notify()

    def end(self, ending: Json, seconds: float) -> bool:
        """Send the rest and the end, waiting at most so long; whether all of it has arrived.

        The first end is the one, unless it is refused; told again, it is waited for again.
        """
        with self._changed:
            if self._ending is None and self.refusal is None:
                self._ending, self.refused_end = ending, None
            self._changed.notify_all()
            briefly = min(seconds, self._patience)
            over = self._changed.wait_for(self._is_over, briefly)
            if not over and self._heard:
                over = self._changed.wait_for(self._is_over, seconds - briefly)
            waited = seconds if self._heard else briefly
            if not self._heard:
                self._patience -= briefly
            if waited and not over:
                lost = f"{len(self._steps)} steps and the end are lost if the script ends before it does"
                self.warn_once(f"the dashboard has not answered for {waited:g} s; {lost}")
            return self._arrived

    def warn_once(self, sentence: str) -> None:
        """Tell the user, once."""
        if sentence not in self._warnings:
            self._warnings.add(sentence)
            sys.stderr.write(f"isoscope: {sentence}\n")

    def _takes(self) -> bool:
        """Whether something more is to be sent; tell the user where it is too late."""
        if self.refusal is None and self.is_ended():
            self.warn_once("what is logged after the end of a run is let go")
        return self.refusal is None and not self.is_ended()

    def _is_over(self) -> bool:
        """Whether there is nothing to wait for any more."""
        return self._arrived or self.refusal is not None or self.refused_end is not None

    def _give_up(self, error: RefusedError) -> None:
        self.warn_once(f"this run is not logged any more: {error}")
        with self._changed:
            self.refusal = error
            self._steps.clear()
            self._predictions.clear()
            self._changed.notify_all()

    def _work(self, client: httpx2.Client) -> None:
        try:
            with client:
                self._client = client
                self._send_until_ended()
            with self._changed:
                self._arrived = True
                self._changed.notify_all()
        except RefusedError as error:
            self._give_up(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the script hears of it and trains on
            self._give_up(RefusedError(f"{type(error).__name__}: {error}"))

    def _send_until_ended(self) -> None:
        wait = 0.0
        while True:
            self._wait(wait)
            try:
                if self._send():
                    return
                wait = 0.0
            except httpx2.TransportError as error:
                self.warn_once(f"the dashboard at {self.url} does not answer ({error}); steps wait for it")
                wait = min(max(1.0, 2 * wait), LONGEST_WAIT_SECONDS)

    def _wait(self, wait: float) -> None:
        """Wait until there is something to send, and after a failure so long; an end is sent sooner."""
        with self._changed:
            waiting = self._steps or self._predictions
            if not waiting and self._ending is None and self._begun:
                self._changed.wait(BEAT_SECONDS)
            if self._ending is None:
                self._changed.wait_for(lambda: self._ending is not None, max(GATHER_SECONDS, wait))
        if wait:
            time.sleep(min(wait, 1.0))

    def _send(self) -> bool:
        """Send what waits; whether that was the end."""
        if not self._begun:
            self._post("/api/runs", self._announcement)
            self._begun = True
        beat = True
        while batch := self._batch():
            beat = False
            self._send_steps(batch)
        while self._predictions:
            beat = False
            self._send_predictions(self._predictions[0])
        ending = self._ending
        if ending is None:
            if beat:
                self._send_steps([])
            return False
        return self._send_end(ending)

    def _batch(self) -> list[Json]:
        """The first steps that wait, as many as go into one request; they are let go when they have arrived."""
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
        """Send steps, and where they are refused each half of them, so that what is wrong is let go alone."""
        if batch and self._full:  # since the half before this one
            return
        try:
            self._post(f"/api/runs/{self._announcement['id']}/steps", {"steps": batch})
        except RefusedError as error:
            if error.status not in WRONG:
                raise
            if len(batch) > 1:
                self._send_steps(batch[: len(batch) // 2])
                self._send_steps(batch[len(batch) // 2 :])
                return
            self.warn_once(f"steps were refused: {error}")
            with self._changed:
                if error.is_full:
                    self._full = True
                    self.dropped += len(self._steps)
                    self._steps.clear()
                else:
                    self.dropped += len(batch)
        with self._changed:
            for sent in batch:
                if self._steps.get(sent["step"]) == sent:  # nothing was added to it meanwhile
                    del self._steps[sent["step"]]

    def _send_predictions(self, part: Json) -> None:
        """Send some predictions; those that are refused for what they say are let go, and the run's end tells so."""
        try:
            self._post(f"/api/runs/{self._announcement['id']}/predictions", part)
        except RefusedError as error:
            if error.status not in WRONG:
                raise
            self.warn_once(f"predictions were refused: {error}")
            self._refused_predictions += len(part["rows"])
        with self._changed:
            self._predictions = [waiting for waiting in self._predictions if waiting is not part]

    def _send_end(self, ending: Json) -> bool:
        """Send the end; whether it was taken. Of one that is refused for what it says another may come."""
        body = ending
        lost = [
            f"{n} {noun} were not logged."
            for n, noun in ((self.dropped, "steps"), (self._refused_predictions, "predictions"))
            if n
        ]
        if lost:
            body = {**ending, "notes": [*lost, *ending.get("notes", [])][:MAX_NOTES]}
        try:
            self._post(f"/api/runs/{self._announcement['id']}/finish", body)
        except RefusedError as error:
            if error.status not in WRONG or "error" in ending:
                raise
            self.warn_once(f"what came out of this run was refused: {error}")
            with self._changed:
                self._ending, self.refused_end = None, str(error)
                self._changed.notify_all()
            return False
        return True

    def _post(self, path: str, body: Json) -> None:
        answer = self._client.post(path, json=body)
        if is_away(answer) or answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise httpx2.TransportError(f"status {answer.status_code}")
        self._heard = True
        if not answer.is_success:
            _, field = error_detail(answer) or ("", None)
            raise RefusedError(error_sentence(answer), answer.status_code, field)


def _merge_step(waiting: Json, update: Mapping[str, Any]) -> Json:
    """A step with more of it: measures by layer beside those that it has, reasons one behind the other."""
    joined = {**waiting, **update}
    if "layers" in joined:
        joined["layers"] = {**waiting.get("layers", {}), **update.get("layers", {})}
    if reasons := [values["reason"] for values in (waiting, update) if "reason" in values]:
        joined["reason"] = "; ".join(reasons)[:LONGEST_LINE]
    return joined
