"""The commands of the server, each imported when it is called: entry points of ``isoscope.commands``."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from pydantic import ValidationError
from pydantic_settings import SettingsError
from sqlalchemy.exc import SQLAlchemyError

from app.core.settings import Settings, setting_errors
from app.db.session import driver_message
from isoscope.cli.printing import write
from isoscope.core.formatting import plural, size

CommandFunction = Callable[[Namespace], int]


def add_serve(command: ArgumentParser) -> None:
    command.set_defaults(run=_serve)


def add_migrate(command: ArgumentParser) -> None:
    command.set_defaults(run=_migrate)


def add_doctor(command: ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print one JSON document")
    command.add_argument("--worker", action="store_true", help="only check that this machine's worker is alive")
    command.set_defaults(run=_doctor)


def add_backup(command: ArgumentParser) -> None:
    command.add_argument("folder", type=Path, metavar="FOLDER", help="folder for backups; each is a new subfolder")
    command.set_defaults(run=_backup)


def add_restore(command: ArgumentParser) -> None:
    command.add_argument(
        "folder", type=Path, metavar="FOLDER", help="a backup, or a folder of backups to take the newest from"
    )
    command.set_defaults(run=_restore)


def _reporting_errors(run: CommandFunction) -> CommandFunction:
    """Print sentences about wrong settings and unusable databases instead of tracebacks."""

    @wraps(run)
    def run_reporting(arguments: Namespace) -> int:
        try:
            return run(arguments)
        except (ValidationError, SettingsError) as error:
            sys.stderr.writelines(f"{sentence}\n" for sentence in setting_errors(error))
            return 2
        except SQLAlchemyError as error:
            sys.stderr.write(
                f"The databases cannot be used: {driver_message(error)}. To find out why: isoscope doctor\n"
            )
            return 1

    return run_reporting


@_reporting_errors
def _serve(_: Namespace) -> int:
    from app.operations.serve import serve  # noqa: PLC0415 - it imports the whole web application

    return serve(Settings())


@_reporting_errors
def _migrate(_: Namespace) -> int:
    from app.operations.migrate import migrate  # noqa: PLC0415

    migrate(Settings())
    return write(["both databases are up to date"])


@_reporting_errors
def _doctor(arguments: Namespace) -> int:
    from app.operations.doctor import doctor  # noqa: PLC0415

    return doctor(as_json=arguments.json, worker_only=arguments.worker)


@_reporting_errors
def _backup(arguments: Namespace) -> int:
    from app.operations.backup import make_backup  # noqa: PLC0415

    backup = make_backup(Settings(), arguments.folder)
    lines = [
        f"{backup.folder}: {plural(backup.files, 'file')}, {size(backup.size_bytes)}, schema revision {backup.revision}"
    ]
    if backup.missing:
        lines.append(f"{plural(len(backup.missing), 'stored file')} deleted while the backup was made, not in it")
    if backup.damaged:
        lines.append(
            f"Caution: {plural(len(backup.damaged), 'stored file')} damaged on the disk, not in the backup: "
            f"{', '.join(sha256[:12] for sha256 in backup.damaged)}"
        )
    lines += [
        f"The checkpoints of run {run} changed too fast: restored, it starts afresh" for run in backup.restarting_runs
    ]
    write(lines)
    return int(bool(backup.damaged))


@_reporting_errors
def _restore(arguments: Namespace) -> int:
    from app.operations.backup import restore_backup  # noqa: PLC0415

    backup, problem = restore_backup(Settings(), arguments.folder)
    return write([f"{backup} is restored", *([str(problem)] if problem else [])])
