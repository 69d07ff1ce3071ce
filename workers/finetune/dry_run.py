"""The dry-run job: a few rows and steps of every kind that a sweep has, before it is launched."""

import gc
import statistics
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Update, update

from app.db.config import RunConfig
from app.db.models import Dataset, DryRun, ResultStatus
from app.queue import Job
from app.settings import Settings
from workers.device import choose_device
from workers.failure import record
from workers.finetune.final_cost import FinalCost
from workers.finetune.rehearsal import Rehearsal
from workers.models import be_quiet
from workers.sessions import job_sessions

Times = dict[str, Any]
"""Of one kind of step: seconds, each under a name that begins with ``seconds``, and sizes."""


def dry_run(dry_run_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Rehearse every configuration of a dry run; write what rows become, the first loss, and what runs take.

    All are timed twice, the second time in reverse order, after a first rehearsal that is not timed: what is slow
    because the process is cold, or because the machine is busy for a while, would pass for the cost of a kind.
    """
    sessions = job_sessions(settings)
    with sessions() as session:
        asked = session.get(DryRun, dry_run_id)
        dataset = session.get(Dataset, asked.dataset_id) if asked is not None else None
    if asked is None or dataset is None or asked.status is not ResultStatus.QUEUED:
        return ()
    be_quiet()
    choose_device(device)
    try:
        configs = asked.configs
        shown = _warm_up(configs[0], dataset, settings, device)
        there = _time(configs, dataset, settings, device)
        back = _time(configs[::-1], dataset, settings, device)[::-1]
        results = {**shown, "kinds": [_joined(passes) for passes in zip(there, back, strict=True)]}
        with sessions.begin() as session:
            session.execute(_waiting(dry_run_id).values(status=ResultStatus.READY, results=results, error=None))
    except Exception as error:  # noqa: BLE001 - whatever it is belongs into the row, not into a retry
        record(error, sessions, _waiting(dry_run_id), status=ResultStatus.FAILED)
    return ()


def _warm_up(config: RunConfig, dataset: Dataset, settings: Settings, device: str) -> dict[str, Any]:
    """Rehearse all of it once, and return what that shows."""
    rehearsal = Rehearsal(config, dataset, settings, device)
    shown = rehearsal.shown()
    rehearsal.final_cost()
    rehearsal.times()
    return shown


def _time(configs: Sequence[RunConfig], dataset: Dataset, settings: Settings, device: str) -> list[Times]:
    """Time each configuration, one model in memory at a time; the final measuring once for all that measure alike."""
    costs: dict[tuple[str, int, int | None], FinalCost] = {}
    found = []
    for config in configs:
        gc.collect()  # a Trainer and its callbacks refer to one another, and would keep the model before beside this
        rehearsal = Rehearsal(config, dataset, settings, device)
        alike = (config.model, config.batch_size, config.max_length)
        if alike not in costs:
            costs[alike] = rehearsal.final_cost()
        found.append(rehearsal.times() | costs[alike]._asdict())
        del rehearsal
    return found


def _joined(passes: Sequence[Times]) -> Times:
    """The sizes of a kind, each of its times as the mean of all passes, and its fastest and slowest."""
    seconds = {name: [times[name] for times in passes] for name in passes[0] if name.startswith("seconds")}
    return {
        **passes[0],
        **{name: statistics.fmean(values) for name, values in seconds.items()},
        "fastest": {name: min(values) for name, values in seconds.items()},
        "slowest": {name: max(values) for name, values in seconds.items()},
    }


def _waiting(dry_run_id: str) -> Update:
    return update(DryRun).where(DryRun.id == dry_run_id, DryRun.status == ResultStatus.QUEUED)
