"""Sends what a script logs to the dashboard, from a thread of its own: training never waits for the server."""

import json
import sys
import time
from collections.abc import Mapping
from http import HTTPStatus
from threading import Condition, Thread
from typing import Any

from app.errors import UnavailableError
from isoscope.remote.connection import Connection, Known, RefusedError, path_of

MAX_KEPT = 10_000
"""Steps that wait for a server that is away; of more the oldest are let go."""
STEPS_AT_ONCE = 200
BYTES_AT_ONCE = 400_000
GATHER_SECONDS = 0.5
BEAT_SECONDS = 60.0
LONGEST_WAIT_SECONDS = 30.0

Json = dict[str, Any]


class Sender:
    """Announces a run, sends its steps in the order they were logged, then its end; says once what goes wrong.

    A server that is away is asked again, at growing intervals. One that refuses a batch of steps gets the next; one
    that refuses the run itself, because it was cancelled or its announcement is wrong, is left in peace.

    Args:
        dashboard: the connection to it, closed at the end.
        told: the announcement, with the id of the run.

    """

    def __init__(self, dashboard: Connection, told: Json) -> None:
        self.refusal: RefusedError | None = None
        """Why nothing more is sent."""
        self.dropped = 0
        """Steps that were let go, because too many waited or because the server refused them."""
        self._dashboard = dashboard
        self._told = told
        self._begun = False
        self._steps: dict[int, Json] = {}
        self._ending: Json | None = None
        self._changed = Condition()
        self._said: set[str] = set()
        self._thread = Thread(target=self._work, name="isoscope", daemon=True)
        self._thread.start()

    def put(self, step: int, values: Mapping[str, Any]) -> None:
        """Have values of a step sent; more of the same step are added to those that wait."""
        with self._changed:
            if self.refusal is not None or self._ending is not None:
                return
            waiting = self._steps.setdefault(step, {"step": step})
            reasons = [one for one in (waiting.get("reason"), values.get("reason")) if one]
            waiting.update(values, **({"reason": "; ".join(reasons)} if reasons else {}))
            if len(self._steps) > MAX_KEPT:
                self._steps.pop(next(iter(self._steps)))
                self.dropped += 1
            self._changed.notify()

    def end(self, ending: Json, seconds: float) -> bool:
        """Send the rest and the end, waiting at most so long; whether all of it has arrived."""
        with self._changed:
            if self._ending is None:
                self._ending = ending
            self._changed.notify()
        self._thread.join(seconds)
        arrived = not self._thread.is_alive() and self.refusal is None
        if self._thread.is_alive():
            self.say(f"the dashboard has not answered for {seconds:g} s; {len(self._steps)} steps and the end are lost")
        return arrived

    def say(self, sentence: str) -> None:
        """Tell the user, once."""
        if sentence not in self._said:
            self._said.add(sentence)
            sys.stderr.write(f"isoscope: {sentence}\n")

    def _work(self) -> None:
        with self._dashboard:
            self._send_until_ended()

    def _send_until_ended(self) -> None:
        wait = 0.0
        while True:
            with self._changed:
                if not self._steps and self._ending is None and self._begun:
                    self._changed.wait(BEAT_SECONDS)
                if self._ending is None:
                    self._changed.wait_for(lambda: self._ending is not None, max(GATHER_SECONDS, wait))
            if wait:
                time.sleep(min(wait, 1.0))
            try:
                if self._send():
                    return
                wait = 0.0
            except RefusedError as error:
                self.say(f"this run is not logged any more: {error}")
                with self._changed:
                    self.refusal = error
                    self._steps.clear()
                return
            except UnavailableError as error:
                self.say(f"the dashboard does not answer, and steps wait for it: {error}")
                wait = min(max(1.0, 2 * wait), LONGEST_WAIT_SECONDS)

    def _send(self) -> bool:
        """Send what waits; whether that was the end."""
        if not self._begun:
            self._post(self._told)
            self._begun = True
        beat = True
        while batch := self._batch():
            beat = False
            self._send_steps(batch)
        ending = self._ending
        if ending is None:
            if beat:
                self._send_steps([])
            return False
        if self.dropped:
            ending = {**ending, "notes": [*ending.get("notes", []), f"{self.dropped} steps were not logged."]}
        self._post(ending, self._told, "finish")
        return True

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
        try:
            self._post({"steps": batch}, self._told, "steps")
        except RefusedError as error:
            if error.status not in (HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.REQUEST_ENTITY_TOO_LARGE):
                raise
            self.say(f"steps were refused: {error}")
            self.dropped += len(batch)
        with self._changed:
            for sent in batch:
                if self._steps.get(sent["step"]) == sent:  # nothing was added to it meanwhile
                    del self._steps[sent["step"]]

    def _post(self, body: Json, *of_runs: Known) -> None:
        try:
            self._dashboard.ask("POST", path_of("runs", *of_runs), json=body)
        except RefusedError as error:
            if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise UnavailableError(str(error)) from error
            raise
