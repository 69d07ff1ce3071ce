"""Which function does a job. The fork server imports this once, and torch and transformers with what does the jobs."""

from collections.abc import Sequence
from pkgutil import resolve_name

from app.db.job_kinds import KINDS
from app.queue import Job
from app.settings import Settings

for kind in KINDS.values():
    resolve_name(kind.work)


def do(job: Job, settings: Settings, device: str) -> Sequence[Job]:
    """Do a job in this process and return the jobs that follow; what came of it is in its row."""
    following: Sequence[Job] = resolve_name(job.kind.work)(job.row_id, settings, device)
    return following
