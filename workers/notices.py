"""Tell the administrator's webhook once that a sweep has ended."""

import logging
from collections import Counter
from threading import Thread

import httpx2
from pydantic import SecretStr
from sqlalchemy import exists, select, update

from app.db.models import FINAL, Experiment, ExperimentOrigin, Run, status_of_runs
from app.db.session import Sessions
from app.db.types import utcnow
from isoscope.core.formatting import plural

logger = logging.getLogger(__name__)
# These libraries log each request's URL, which may hold a secret.
for _library in ("httpx2", "httpcore2"):
    logging.getLogger(_library).setLevel(logging.WARNING)

TIMEOUT_SECONDS = 10.0

UNANNOUNCED_END = (
    Experiment.notified_at.is_(None),
    exists().where(Run.experiment_id == Experiment.id),
    ~exists().where(Run.experiment_id == Experiment.id, Run.status.not_in(FINAL)),
)
"""Conditions for an experiment whose runs have all ended without an announcement."""


def announce_ended_experiments(sessions: Sessions, url: SecretStr | None) -> None:
    """Mark launched experiments that have ended, and post each to the webhook, if any.

    Each message is sent at most once: the mark is written first, so a worker that dies here sends nothing twice.
    A thread sends the messages, because the caller must not wait for a slow address.
    """
    query = select(Experiment.id, Experiment.study).where(
        *UNANNOUNCED_END, Experiment.origin == ExperimentOrigin.LAUNCHED
    )
    with sessions() as session:
        ended_ids = [row_id for row_id, study in session.execute(query) if study is None or study.over]
    messages: list[dict[str, object]] = []
    for experiment_id in ended_ids:
        mark = update(Experiment).where(Experiment.id == experiment_id, *UNANNOUNCED_END).values(notified_at=utcnow())
        with sessions.begin() as session:
            name = session.scalar(mark.returning(Experiment.name))
            if name is None:
                continue  # another worker has marked it, or a run was retried
            statuses = session.scalars(select(Run.status).where(Run.experiment_id == experiment_id)).all()
        counts = Counter(statuses)
        summary = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        experiment = {
            "id": experiment_id,
            "name": name,
            "status": str(status_of_runs(counts)),
            "counts": {str(status): count for status, count in counts.items()},
            "path": f"/experiments/{experiment_id}",
        }
        # The text for chats, the other fields for programs.
        text = f"{name} has ended: {plural(counts.total(), 'run')}, {summary}."
        messages.append({"event": "experiment.ended", "text": text, "experiment": experiment})
    if url is not None and messages:
        Thread(target=send, args=(url, *messages), name="webhook", daemon=True).start()


def send(url: SecretStr, *messages: dict[str, object]) -> None:
    """Post messages. A failure is logged, without the address, which may hold a secret."""
    for message in messages:
        try:
            response = httpx2.post(
                url.get_secret_value(), json=message, timeout=TIMEOUT_SECONDS, follow_redirects=False
            )
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            logger.warning("the webhook could not be reached: %s", type(error).__name__)
            continue
        if not response.is_success:
            logger.warning("the webhook answered with status %s", response.status_code)
