"""``isoscope doctor``: look at everything an installation needs, and say what to do."""

import json
import sys
from collections.abc import Callable, Iterator

from pydantic import ValidationError
from pydantic_settings import SettingsError

from app.core.settings import Settings
from app.operations.checks import Finding, Level
from app.operations.checks.access import accepted, access, port, refused
from app.operations.checks.databases import metrics_database, own_worker, queue_database, workers
from app.operations.checks.machine import devices, folders, models, storage

Check = Callable[[Settings], Iterator[Finding]]

EVERYTHING: list[Check] = [
    accepted, folders, metrics_database, queue_database, storage, workers, devices, models, access, port,
]  # fmt: skip
WORKER_ONLY: list[Check] = [own_worker]


def doctor(*, as_json: bool, worker_only: bool) -> int:
    """Print what is found; 1 if there is a problem, else 0."""
    problems = 0
    found = []
    for finding in findings(WORKER_ONLY if worker_only else EVERYTHING):
        problems += finding.level is Level.PROBLEM
        found.append(finding)
        if not as_json:
            sys.stdout.write(f"{finding}\n")
            sys.stdout.flush()
    if as_json:
        report = {"problems": problems, "findings": [finding._asdict() for finding in found]}
        sys.stdout.write(f"{json.dumps(report, indent=2)}\n")
    return int(problems > 0)


def findings(checks: list[Check]) -> Iterator[Finding]:
    """What the checks find, as they find it; of wrong settings only these."""
    try:
        settings = Settings()
    except (ValidationError, SettingsError) as error:
        yield from refused(error)
        return
    for check in checks:
        yield from check(settings)
