"""Imports the code of every kind of job once in the fork server, for all processes forked from it."""

import gc
import logging
from pkgutil import resolve_name

from app.db.job_kinds import KINDS

# Garbage collection would take a quarter of the time of these imports. Later collections skip frozen objects, which
# each forked process would otherwise copy.
gc.disable()
try:
    for kind in KINDS.values():
        resolve_name(kind.work)
except Exception:
    # The fork server would end without a message. Each job runs into the same error and fails with a sentence.
    logging.getLogger(__name__).exception("Jobs will fail: a library is missing or too old. Install it anew.")
gc.freeze()
gc.enable()
