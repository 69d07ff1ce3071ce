from collections.abc import Callable
from typing import Any

from sqlalchemy import event, func, select

from app.context import Context


def queries_of(context: Context, ask: Callable[[], object]) -> list[tuple[str, Any]]:
    statements: list[tuple[str, Any]] = []
    engine = type(context.sessions.kw["bind"])

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, *arguments: Any) -> None:
        statements.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    try:
        ask()
    finally:
        event.remove(engine, "before_cursor_execute", note)
    return statements


def count_rows(context: Context, table: type) -> int | None:
    return context.scalar(select(func.count()).select_from(table))
