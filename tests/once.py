"""What one test of a module had made and measured, put into the database of the next in place of making it again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Table, insert, select

from app.context import Context
from app.db.models import Base

Rows = list[tuple[Table, list[dict[str, Any]]]]


class Made(NamedTuple):
    """All rows and stored files of a dashboard, and the name of what they are."""

    rows: Rows
    files: dict[Path, bytes]
    name: str


def make_once(context: Context, known: dict[str, Any], key: str, make: Callable[[], str]) -> str:
    """The name of what ``make`` makes; a second time, in an empty SQLite database, its rows and files are copied.

    On PostgreSQL it is always made, whose sequences would not know of copied rows.
    """
    if context.sessions.kw["bind"].dialect.name != "sqlite" or _rows(context):
        return make()
    if key not in known:
        name = make()
        root = context.settings.files
        files = {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        known[key] = Made(_rows(context), files, name)
        return name
    made: Made = known[key]
    for path, content in made.files.items():
        place = context.settings.files / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    with context.sessions.begin() as session:
        for table, rows in made.rows:
            session.execute(insert(table), rows)
    return made.name


def _rows(context: Context) -> Rows:
    """What the tables hold, each after those that it refers to."""
    with context.sessions() as session:
        found = [
            (table, [dict(row) for row in session.execute(select(table)).mappings()])
            for table in Base.metadata.sorted_tables
        ]
    return [(table, rows) for table, rows in found if rows]
