"""Copy rows and files that one test of a module made into the databases of the next."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Table, func, insert, or_, select

from app.context import Context
from app.db.models import Base

Rows = list[tuple[Table, list[dict[str, Any]]]]


def make_once(context: Context, cache: dict[str, Any], key: str, make: Callable[[], str]) -> str:
    """Return the id that ``make`` returns. In a later empty database, copy its rows and files instead."""
    if context.scalar(select(or_(*(select(table).exists() for table in Base.metadata.sorted_tables)))):
        return make()
    key = f"{key} on {context.sessions.kw['bind'].dialect.name}"
    if key not in cache:
        name = make()
        root = context.settings.files
        files = {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        cache[key] = name, _rows(context), files
        return name
    name, copied_rows, files = cache[key]
    for path, content in files.items():
        target = context.settings.files / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    with context.sessions.begin() as session:
        for table, rows in copied_rows:
            session.execute(insert(table), rows)
            # Number new rows after the copied ones; SQLite does it by itself.
            numbered = table.autoincrement_column
            if numbered is not None and session.get_bind().dialect.name == "postgresql":
                sequence = func.pg_get_serial_sequence(table.name, numbered.name)
                session.execute(select(func.setval(sequence, func.max(numbered))))
    return name


def _rows(context: Context) -> Rows:
    with context.sessions() as session:
        stored_rows = [
            (table, [dict(row) for row in session.execute(select(table)).mappings()])
            for table in Base.metadata.sorted_tables
        ]
    return [(table, rows) for table, rows in stored_rows if rows]
