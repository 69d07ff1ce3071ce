"""Which function does a job. A fork server imports this once, for all processes that are forked from it."""

import gc
from collections.abc import Sequence
from pkgutil import resolve_name

from app.core.settings import Settings
from app.db.job_kinds import KINDS, Job

# To look for garbage takes a quarter of the time of these imports, torch and transformers among them. Frozen, what they
# made is left alone by later collections, which would have each process copy its memory.
gc.disable()
for kind in KINDS.values():
    resolve_name(kind.work)
gc.freeze()
gc.enable()


def do(work: str, row_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Do the work of a kind of job in this process; return the jobs that follow. What came of it is in the row."""
    following: Sequence[Job] = resolve_name(work)(row_id, settings, device)
    return following
