"""The commands of the server, each imported when it is called: entry points of ``isoscope.commands``."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from pydantic import ValidationError
from pydantic_settings import SettingsError
from sqlalchemy.exc import SQLAlchemyError

from app.core.settings import Settings
from app.db.session import cause
from app.operations.checks.access import sentences
from isoscope.cli.printing import write
from isoscope.core.formatting import plural, size

Run = Callable[[Namespace], int]


def add_serve(command: ArgumentParser) -> None:
    """Add ``isoscope serve``."""
    command.set_defaults(run=_serve)


def add_migrate(command: ArgumentParser) -> None:
    """Add ``isoscope migrate``."""
    command.set_defaults(run=_migrate)


def add_doctor(command: ArgumentParser) -> None:
    """Add ``isoscope doctor``."""
    command.add_argument("--json", action="store_true", help="print one JSON document")
    command.add_argument("--worker", action="store_true", help="only check that this machine's worker is alive")
    command.set_defaults(run=_doctor)


def add_backup(command: ArgumentParser) -> None:
    """Add ``isoscope backup``."""
    command.add_argument("folder", type=Path, metavar="FOLDER", help="folder for backups; each is a new subfolder")
    command.set_defaults(run=_backup)


def add_restore(command: ArgumentParser) -> None:
    """Add ``isoscope restore``."""
    command.add_argument(
        "folder", type=Path, metavar="FOLDER", help="a backup, or a folder of backups to take the newest from"
    )
    command.add_argument("--replace", action="store_true", help="move existing data aside first")
    command.set_defaults(run=_restore)


def _telling(run: Run) -> Run:
    """Have settings that are wrong, and databases that cannot be used, told by sentences."""

    @wraps(run)
    def told(given: Namespace) -> int:
        try:
            return run(given)
        except (ValidationError, SettingsError) as error:
            sys.stderr.writelines(f"{sentence}\n" for sentence in sentences(error))
            return 2
        except SQLAlchemyError as error:
            sys.stderr.write(f"The databases cannot be used: {cause(error)}. To find out why: isoscope doctor\n")
            return 1

    return told


@_telling
def _serve(_: Namespace) -> int:
    from app.operations.serve import serve  # noqa: PLC0415 - it imports the whole web application

    return serve(Settings())


@_telling
def _migrate(_: Namespace) -> int:
    from app.operations.migrate import migrate  # noqa: PLC0415

    migrate(Settings())
    return write(["both databases are up to date"])


@_telling
def _doctor(given: Namespace) -> int:
    from app.operations.doctor import doctor  # noqa: PLC0415

    return doctor(as_json=given.json, worker_only=given.worker)


@_telling
def _backup(given: Namespace) -> int:
    from app.operations.backup.making import make_backup  # noqa: PLC0415

    made = make_backup(Settings(), given.folder)
    manifest = made.manifest
    lines = [
        f"{made.folder}: {plural(len(manifest.entries), 'file')}, {size(manifest.size_bytes)}, "
        f"schema revision {manifest.schema_revision}"
    ]
    if manifest.missing:
        lines.append(f"{plural(len(manifest.missing), 'stored file')} deleted while the backup was made, not in it")
    if manifest.damaged:
        lines.append(
            f"Caution: {plural(len(manifest.damaged), 'stored file')} damaged on the disk, not in the backup: "
            f"{', '.join(sha256[:12] for sha256 in manifest.damaged)}"
        )
    lines += [f"The checkpoints of run {run} changed too fast: restored, it starts afresh" for run in made.unsettled]
    write(lines)
    return int(bool(manifest.damaged))


@_telling
def _restore(given: Namespace) -> int:
    from app.operations.backup.restoring import restore_backup  # noqa: PLC0415

    restored = restore_backup(Settings(), given.folder, replace=given.replace)
    lines = [f"{restored.backup} is restored"]
    if restored.replaced is not None:
        lines.append(f"What was here before lies in {restored.replaced}; delete it when you no longer need it")
    if restored.is_older:
        lines.append("Its tables are of an older version. Run: isoscope migrate")
    return write(lines)
