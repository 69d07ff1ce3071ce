"""Back up a dashboard of this machine while it runs, and restore it: ``isoscope backup`` and ``isoscope restore``."""

from argparse import ArgumentParser, Namespace, _SubParsersAction
from pathlib import Path

from app.operations.backup.making import make_backup
from app.operations.backup.restoring import restore_backup
from app.settings import Settings
from isoscope.core.formatting import plural, size
from isoscope.output import write


def add_backup_commands(commands: "_SubParsersAction[ArgumentParser]") -> None:
    """Add both commands."""
    command = commands.add_parser("backup", help="copy databases, files and checkpoints into a folder, while it runs")
    command.add_argument("folder", type=Path, metavar="FOLDER", help="each backup is a new subfolder of it")
    command.set_defaults(run=_backup)
    command = commands.add_parser("restore", help="put a backup in place, verified first")
    command.add_argument("folder", type=Path, metavar="FOLDER", help="a backup, or a folder whose newest one is taken")
    command.add_argument("--replace", action="store_true", help="where there are data already, put them aside")
    command.set_defaults(run=_restore)


def _backup(given: Namespace) -> int:
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


def _restore(given: Namespace) -> int:
    restored = restore_backup(Settings(), given.folder, replace=given.replace)
    lines = [f"{restored.backup} is restored"]
    if restored.replaced is not None:
        lines.append(f"What was here before lies in {restored.replaced}; delete it when you need it no more")
    if restored.is_older:
        lines.append("Its tables are of an older version. Run: isoscope migrate")
    return write(lines)
