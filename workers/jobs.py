"""Which function does a job. The fork server imports this once, and torch and transformers with what does the jobs."""

from collections.abc import Sequence
from pkgutil import resolve_name

from app.core.settings import Settings
from app.db.job_kinds import KINDS, Job

for kind in KINDS.values():
    resolve_name(kind.work)


def do(work: str, row_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Do the work of a kind of job in this process; return the jobs that follow. What came of it is in the row."""
    following: Sequence[Job] = resolve_name(work)(row_id, settings, device)
    return following
