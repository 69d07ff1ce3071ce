"""Column types that mean the same on SQLite and PostgreSQL."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Generic, TypeVar
from uuid import uuid4

from pydantic import AfterValidator, BaseModel
from sqlalchemy import JSON, DateTime, Dialect, Enum, TypeDecorator
from sqlalchemy.types import TypeEngine


def new_id() -> str:
    """A random identifier, short enough for a URL: 32 hexadecimal characters."""
    return uuid4().hex


def utcnow() -> datetime:
    """The current time, with its zone."""
    return datetime.now(UTC)


def _fit_for_a_query(text: str) -> str:
    if "\0" in text or not text.isascii():
        raise ValueError("expected the id of a row, got a text with a character that no id has")
    return text


RowId = Annotated[str, AfterValidator(_fit_for_a_query)]
"""An id as a request's body gives it. NUL and halves of characters no database would even look up."""


class UtcDateTime(TypeDecorator[datetime]):
    """A point in time. SQLite forgets the zone and PostgreSQL answers in its own, so UTC is put back on reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse a time without a zone: it would mean different moments on different machines."""
        if value is not None and value.tzinfo is None:
            raise ValueError(f"expected a time with a zone, got {value!r}; use utcnow()")
        return value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give every time read its zone."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def stored_by_value(enum: type[StrEnum]) -> Enum:
    """An enumeration stored as its values in a plain string column, so that adding one needs no migration."""

    def values(members: Any) -> list[str]:
        return [member.value for member in members]

    return Enum(enum, native_enum=False, create_constraint=False, length=16, values_callable=values)


M = TypeVar("M", bound=BaseModel)


class Typed(TypeDecorator[M], Generic[M]):
    """A pydantic model in a JSON column: checked as it is written, and as it is read from rows of any version.

    What a query takes out of the column, such as ``Run.results["metrics"]``, is plain JSON.
    """

    impl = JSON
    cache_ok = True

    class Comparator(TypeDecorator.Comparator[Any], JSON.Comparator[Any]):
        """Paths into the column, without its model."""

        def _setup_getitem(self, index: Any) -> Any:
            operator, place, _ = super()._setup_getitem(index)  # type: ignore[no-untyped-call]
            return operator, place, JSON(none_as_null=True)

    comparator_factory = Comparator

    def __init__(self, model: type[M]) -> None:
        super().__init__(none_as_null=True)
        self.model = model

    def coerce_compared_value(self, op: Any, value: Any) -> TypeEngine[Any]:
        """Compare with what is compared, as a JSON column does."""
        return self.impl_instance.coerce_compared_value(op, value)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Store a model as JSON; raises ValidationError if a value is invalid."""
        if value is None:
            return None
        found = value if isinstance(value, self.model) else self.model.model_validate(value)
        return found.model_dump(mode="json")

    def process_result_value(self, value: Any, dialect: Dialect) -> M | None:
        """Read the model."""
        return None if value is None else self.model.model_validate(value)
