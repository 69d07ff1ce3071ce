"""Commands of the server, as entry points of ``isoscope.commands``. Each imports its module only when it runs."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from pydantic import ValidationError
from pydantic_settings import SettingsError
from sqlalchemy.exc import SQLAlchemyError

from app.core.process import PRIVATE_UMASK
from app.core.settings import Settings, setting_errors
from app.db.session import driver_message
from isoscope.cli.printing import table, write
from isoscope.core.formatting import plural, size


def add_serve(command: ArgumentParser) -> None:
    command.set_defaults(run=partial(_run, _serve))


def add_migrate(command: ArgumentParser) -> None:
    command.set_defaults(run=partial(_run, _migrate))


def add_doctor(command: ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print one JSON document")
    command.add_argument("--worker", action="store_true", help="only check that this machine's worker is alive")
    command.set_defaults(run=partial(_run, _doctor))


def add_backup(command: ArgumentParser) -> None:
    command.add_argument("folder", type=Path, metavar="FOLDER", help="folder for backups; each is a new subfolder")
    command.set_defaults(run=partial(_run, _backup))


def add_restore(command: ArgumentParser) -> None:
    command.add_argument(
        "folder", type=Path, metavar="FOLDER", help="a backup, or a folder of backups to take the newest from"
    )
    command.set_defaults(run=partial(_run, _restore))


def add_tokens(command: ArgumentParser) -> None:
    command.add_argument("action", nargs="?", choices=["list", "create", "revoke"], default="list")
    command.add_argument("name", nargs="?", metavar="NAME", help="name of the token to create or revoke")
    command.add_argument("--scope", choices=["read", "write", "admin"], default="write", help="(default: %(default)s)")
    command.add_argument("--days", metavar="DAYS", help="days until it expires (default: never)")
    command.set_defaults(run=partial(_run, _tokens))


def _run(command: Callable[[Namespace], int], arguments: Namespace) -> int:
    """Run a command, whose files stay private, and return its exit code. Explain errors of settings and databases."""
    os.umask(PRIVATE_UMASK)
    try:
        return command(arguments)
    except (ValidationError, SettingsError) as error:
        sys.stderr.writelines(f"{sentence}\n" for sentence in setting_errors(error))
        return 2
    except SQLAlchemyError as error:
        sys.stderr.write(f"The databases cannot be used: {driver_message(error)}. To find out why: isoscope doctor\n")
        return 1


def _serve(_: Namespace) -> int:
    from app.operations.serve import serve  # noqa: PLC0415 - it imports the whole web application

    return serve(Settings())


def _migrate(_: Namespace) -> int:
    from app.operations.migrate import migrate  # noqa: PLC0415

    migrate(Settings())
    return write(["both databases are up to date"])


def _doctor(arguments: Namespace) -> int:
    from app.operations.doctor import doctor  # noqa: PLC0415

    return doctor(as_json=arguments.json, worker_only=arguments.worker)


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
        f"The checkpoints of run {run} changed too fast: restored, it starts over" for run in backup.restarting_runs
    ]
    write(lines)
    return int(bool(backup.damaged))


def _restore(arguments: Namespace) -> int:
    from app.operations.backup import restore_backup  # noqa: PLC0415

    backup, problem = restore_backup(Settings(), arguments.folder)
    return write([f"{backup} is restored", *([str(problem)] if problem else [])])


def _tokens(arguments: Namespace) -> int:
    from app.context import create_context  # noqa: PLC0415
    from app.db.migration import require_schema  # noqa: PLC0415
    from app.web.tokens import create_token, list_tokens, parse_token_request, revoke_token  # noqa: PLC0415

    settings = Settings()
    require_schema(settings.database)
    with closing(create_context(settings)) as context:
        if arguments.action == "create":
            request = parse_token_request({name: getattr(arguments, name) for name in ("name", "scope", "days")})
            return write([create_token(context, request)[1]])
        if arguments.action == "revoke":
            return write([f"{revoke_token(context, arguments.name or '').name} is revoked"])
        tokens = list_tokens(context)
    rows = []
    for token in tokens:
        dates = [f"{time:%Y-%m-%d}" if time else "never" for time in (token.expires_at, token.last_used_at)]
        rows.append((token.name, token.scope, token.state, *dates))
    return write(table(("name", "scope", "state", "expires", "last used"), rows))
