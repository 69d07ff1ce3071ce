"""Sealed test scores and the record of their openings, as an archive holds them."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from app.archive.records import Id, Moment, Name, Record, Sha256
from app.db.models import ChoiceKind
from app.db.run_results import Reason
from app.numbers import Count, Number
from isoscope.core.errors import InvalidError
from isoscope.core.task import Metric

MOST_OPENINGS = 10_000


class SealedScoreRecord(Record):
    """What a run scored on the test rows."""

    run: Id
    metrics: dict[Metric, Number | None]
    reasons: dict[Metric, Reason]
    n: Count
    rows_sha256: Sha256


class OpeningRecord(Record):
    """A frozen choice of the experiment."""

    record_id: Id
    number: Count
    kind: ChoiceKind
    position: Count
    label: Reason
    note: Reason | None
    by: Name
    at: Moment
    rows_sha256: Sha256
    opened_before: Annotated[Count, Field(le=1_000_000)]


def check_openings(openings: Iterable[OpeningRecord], positions: set[int], advice: str) -> None:
    """Raise InvalidError where openings are not numbered from 1 on, or choose a run that there is not."""
    for expected, opening in enumerate(openings, start=1):
        if opening.number != expected or expected > MOST_OPENINGS:
            raise InvalidError(f"The openings are not numbered 1, 2, 3 and so on: the file was altered. {advice}")
        if opening.position not in positions:
            raise InvalidError(f"An opening chose a run that is not in the file. {advice}")
