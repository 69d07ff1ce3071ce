"""Imports what does each kind of job, once in a fork server for all processes that are forked from it."""

import gc
from pkgutil import resolve_name

from app.db.job_kinds import KINDS

# To look for garbage takes a quarter of the time of these imports, torch and transformers among them. Frozen, what they
# made is left alone by later collections, which would have each process copy its memory.
gc.disable()
for kind in KINDS.values():
    resolve_name(kind.work)
gc.freeze()
gc.enable()
