"""Column types that behave the same on SQLite and PostgreSQL, and numbers that both can store."""

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, partial
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import uuid4

from pydantic import AfterValidator, BaseModel, Field, FiniteFloat, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, core_schema, to_jsonable_python
from sqlalchemy import JSON, DateTime, Dialect, TypeDecorator
from sqlalchemy.types import TypeEngine

from isoscope.plain import MAX_NUMBER, require_bounded

logger = logging.getLogger(__name__)
M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


def new_id() -> str:
    return uuid4().hex


def utcnow() -> datetime:
    return datetime.now(UTC)


def _check_row_id(text: str) -> str:
    if "\0" in text or not text.isascii():
        raise ValueError("expected the id of a row, got a text with a character that no id has")
    return text


# An id in a request body. Databases reject text with NUL or lone surrogates.
RowId = Annotated[str, AfterValidator(_check_row_id)]


class UtcDateTime(TypeDecorator[datetime]):
    """A time, which is read as UTC. SQLite drops the time zone, and PostgreSQL returns times in the server's zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Reject a time without a zone, because its meaning would depend on the machine."""
        if value is not None and value.tzinfo is None:
            raise ValueError(f"expected a time with a zone, got {value!r}; use utcnow()")
        return value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Typed(TypeDecorator[T], Generic[T]):
    """A JSON column of a pydantic type, validated on writing and on reading.

    Attributes of rows accept JSON values too. Paths in a query, such as ``Run.results["metrics"]``, are plain JSON.
    """

    impl = JSON
    cache_ok = True

    class Comparator(TypeDecorator.Comparator[Any], JSON.Comparator[Any]):
        """Paths into the column, without its type."""

        def _setup_getitem(self, index: Any) -> Any:
            operator, path, _ = super()._setup_getitem(index)  # type: ignore[no-untyped-call]
            return operator, path, JSON(none_as_null=True)

    comparator_factory = Comparator

    def __init__(self, value_type: Any) -> None:
        super().__init__(none_as_null=True)
        self.value_type = value_type
        self._adapter: TypeAdapter[T] = TypeAdapter(value_type)

    def coerce_compared_value(self, op: Any, value: Any) -> TypeEngine[Any]:
        return self.impl_instance.coerce_compared_value(op, value)

    def check(self, value: Any) -> T:
        return self._adapter.validate_python(value)

    def read(self, value: Any) -> T:
        return self._adapter.validate_python(value)

    def read_text(self, text: str) -> T:
        """Read a value from JSON text. This is faster than ``read`` on the parsed text."""
        return self._adapter.validate_json(text)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else to_jsonable_python(self.check(value))

    def process_result_value(self, value: Any, dialect: Dialect) -> T | None:
        return None if value is None else self._read_leniently(self.read, value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        """Validate SQLite's JSON as text; PostgreSQL's driver has already parsed it."""
        if dialect.name != "sqlite":
            return super().result_processor(dialect, coltype)
        return lambda text: None if text in (None, "null") else self._read_leniently(self.read_text, text)

    def _read_leniently(self, read: Callable[[Any], T], value: Any) -> T:
        """Read a value. Keep invalid fields of a model as stored, because a later version may have written them.

        So the row can still be listed and deleted. Raises ValidationError if the other fields do not make a model.
        """
        try:
            return read(value)
        except ValidationError as error:
            stored = json.loads(value) if isinstance(value, str) else value
            invalid_names = {str(details["loc"][0]) for details in error.errors() if details["loc"]}
            if not isinstance(stored, dict) or not invalid_names or not invalid_names <= stored.keys():
                raise
            readable = self.read({name: field for name, field in stored.items() if name not in invalid_names})
            if not isinstance(readable, BaseModel):
                raise
            logger.warning("a row has values that this version does not know, in: %s", ", ".join(sorted(invalid_names)))
            record: Any = readable.model_copy(update={name: stored[name] for name in invalid_names})
            return record  # type: ignore[no-any-return]


class _ReadByType:
    """Annotation for a model whose fields were validated when the row was written: checks only their types.

    That takes a tenth of the time. Fields missing from rows of earlier versions take their defaults.
    """

    def __get_pydantic_core_schema__(self, source: type[BaseModel], handler: GetCoreSchemaHandler) -> CoreSchema:
        fields = {}
        for name, field in source.model_fields.items():
            schema = handler.generate_schema(field.annotation)
            if not field.is_required():
                default: dict[str, Any] = {"default": field.default}
                if field.default_factory is not None:
                    default = {"default_factory": partial(field.get_default, call_default_factory=True)}
                schema = core_schema.with_default_schema(schema, **default)
            fields[name] = core_schema.model_field(schema)
        extra: Literal["allow", "ignore"] = "allow" if source.model_config.get("extra") == "allow" else "ignore"
        return core_schema.model_schema(
            source,
            core_schema.model_fields_schema(fields, extra_behavior=extra),
            post_init="model_post_init" if source.__private_attributes__ else None,
        )


@cache
def stored_adapter(model: type[M]) -> TypeAdapter[M]:
    return TypeAdapter(Annotated[model, _ReadByType()])  # type: ignore[arg-type]


Number = Annotated[FiniteFloat, Field(ge=-MAX_NUMBER, le=MAX_NUMBER), AfterValidator(require_bounded)]
Count = Annotated[int, Field(ge=0, lt=2**31)]
