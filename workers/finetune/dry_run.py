"""The dry-run job: a few rows and steps of every kind that a sweep has, before it is launched."""

import gc
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Update, update

from app.db.config import RunConfig
from app.db.models import Dataset, DryRun, ResultStatus
from app.queue import Job
from app.settings import Settings
from workers.device import choose_device
from workers.failure import record
from workers.finetune.rehearsal import Rehearsal
from workers.models import be_quiet
from workers.sessions import job_sessions


def dry_run(dry_run_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Rehearse every configuration of a dry run; write what rows become, the first loss, and what steps take."""
    sessions = job_sessions(settings)
    with sessions() as session:
        asked = session.get(DryRun, dry_run_id)
        dataset = session.get(Dataset, asked.dataset_id) if asked is not None else None
    if asked is None or dataset is None or asked.status is not ResultStatus.QUEUED:
        return ()
    be_quiet()
    choose_device(device)
    try:
        told = []
        for config in asked.configs:
            told.append(_rehearse(RunConfig.model_validate(config), dataset, settings, device))
            gc.collect()  # a Trainer and its callbacks refer to one another, and would keep its model beside the next
        results = {**told[0][0], "kinds": [times for _, times in told]}
        with sessions.begin() as session:
            session.execute(_waiting(dry_run_id).values(status=ResultStatus.READY, results=results, error=None))
    except Exception as error:  # noqa: BLE001 - whatever it is belongs into the row, not into a retry
        record(error, sessions, _waiting(dry_run_id), status=ResultStatus.FAILED)
    return ()


def _rehearse(
    config: RunConfig, dataset: Dataset, settings: Settings, device: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a rehearsal shows, and its times."""
    rehearsal = Rehearsal(config, dataset, settings, device)
    return rehearsal.shown(), rehearsal.times()


def _waiting(dry_run_id: str) -> Update:
    return update(DryRun).where(DryRun.id == dry_run_id, DryRun.status == ResultStatus.QUEUED)
