"""Imports the code of every kind of job once in the fork server, for all processes forked from it."""

import gc
from pkgutil import resolve_name

from app.db.job_kinds import KINDS

# Garbage collection would take a quarter of the time of these imports. Later collections skip frozen objects, which
# each forked process would otherwise copy.
gc.disable()
for kind in KINDS.values():
    resolve_name(kind.work)
gc.freeze()
gc.enable()
