"""Shared parts of tables: names of constraints, types, descriptions by users."""

import enum
from collections.abc import Collection
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import JSON, Enum, MetaData, String, Text, event
from sqlalchemy.orm import DeclarativeBase, Mapped, QueryableAttribute, mapped_column
from sqlalchemy.types import TypeEngine

from app.db.states import ResultStatus
from app.db.types import Typed, UtcDateTime, new_id, utcnow


class Base(DeclarativeBase):
    """The base class of all tables. Constraints have the same names on both databases, as migrations need."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, TypeEngine[Any]]] = {
        datetime: UtcDateTime(),
        dict[str, Any]: JSON(none_as_null=True),
        dict[str, float | None]: JSON(none_as_null=True),
        dict[str, int]: JSON(none_as_null=True),
        dict[str, str]: JSON(none_as_null=True),
        dict[str, list[Any]]: JSON(none_as_null=True),
        dict[str, list[float | None]]: JSON(none_as_null=True),
        list[Any]: JSON(none_as_null=True),
        list[str]: JSON(none_as_null=True),
        # Stored by value in a plain string column, so that a new member needs no migration.
        enum.Enum: Enum(
            enum.Enum,
            native_enum=False,
            create_constraint=False,
            length=16,
            values_callable=lambda members: [member.value for member in members],
        ),
    }


@event.listens_for(Base, "attribute_instrument")
def _validate_typed_columns(_: type[Base], name: str, attribute: QueryableAttribute[Any]) -> None:
    columns = getattr(attribute.property, "columns", ())
    if columns and isinstance(typed := columns[0].type, Typed):
        event.listen(attribute, "set", lambda _, value, *__: None if value is None else typed.check(value), retval=True)


class RequestedResult:
    """The columns of every result that a job computes on request."""

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    status: Mapped[ResultStatus] = mapped_column(default=ResultStatus.QUEUED, index=True)
    error: Mapped[str | None] = mapped_column(Text)
    attempts: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime] = mapped_column(default=utcnow)

    @property
    def waiting(self) -> bool:
        return self.status is ResultStatus.QUEUED


MAX_TAGS = 20
MAX_TAG_CHARACTERS = 40


class Tagged:
    """A row with tags in a separate table."""

    id: Any
    tags: Any

    @property
    def tag_names(self) -> Collection[str]:
        return [row.tag for row in self.tags]


class Described(Tagged):
    """A row with a name, notes and tags."""

    created_at: Any

    name: Mapped[str] = mapped_column(String(200))
    notes: Mapped[str] = mapped_column(Text, default="")
