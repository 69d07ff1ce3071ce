"""What all tables share: names of constraints, and how types are stored."""

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import JSON, MetaData, event
from sqlalchemy.orm import DeclarativeBase, QueryableAttribute
from sqlalchemy.types import TypeEngine

from app.db.states import (
    AttemptOutcome,
    ChoiceKind,
    DatasetOrigin,
    EmbeddingOrigin,
    EmbeddingStatus,
    EncodingStatus,
    ExperimentOrigin,
    FailureCause,
    FileRole,
    ImportStatus,
    MeasurementStatus,
    Phase,
    Pooling,
    ResultStatus,
    RowsBy,
    RunStatus,
    Split,
    TaskStatus,
)
from app.db.types import Typed, UtcDateTime, stored_by_value
from isoscope.files.text import Quoting
from isotropy.catalog import Regularizer


class Base(DeclarativeBase):
    """Names every constraint the same on both databases, so that migrations can name them too."""

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
        AttemptOutcome: stored_by_value(AttemptOutcome),
        EmbeddingStatus: stored_by_value(EmbeddingStatus),
        EmbeddingOrigin: stored_by_value(EmbeddingOrigin),
        EncodingStatus: stored_by_value(EncodingStatus),
        FailureCause: stored_by_value(FailureCause),
        FileRole: stored_by_value(FileRole),
        ImportStatus: stored_by_value(ImportStatus),
        Pooling: stored_by_value(Pooling),
        ResultStatus: stored_by_value(ResultStatus),
        RowsBy: stored_by_value(RowsBy),
        MeasurementStatus: stored_by_value(MeasurementStatus),
        RunStatus: stored_by_value(RunStatus),
        ChoiceKind: stored_by_value(ChoiceKind),
        Phase: stored_by_value(Phase),
        DatasetOrigin: stored_by_value(DatasetOrigin),
        ExperimentOrigin: stored_by_value(ExperimentOrigin),
        Quoting: stored_by_value(Quoting),
        Regularizer: stored_by_value(Regularizer),
        Split: stored_by_value(Split),
        TaskStatus: stored_by_value(TaskStatus),
    }


@event.listens_for(Base, "attribute_instrument")
def _take_what_json_holds(_: type[Base], name: str, attribute: QueryableAttribute[Any]) -> None:
    """Check what is assigned to a column of records, and make records of it."""
    columns = getattr(attribute.property, "columns", ())
    if columns and isinstance(kind := columns[0].type, Typed):

        def check(row: Base, value: Any, before: Any, initiator: Any) -> Any:
            return None if value is None else kind.check(value)

        event.listen(attribute, "set", check, retval=True)
