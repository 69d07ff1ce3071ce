import pytest
import torch
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from app.db.models import FailureCause, Run
from app.db.session import create_sessions
from isoscope.core.errors import InvalidError, NotFoundError
from workers.failure import Failure, NotFiniteError, OtherProcessError, classify_error, log_and_describe, record_error
from workers.training.run_spec import OutOfMemoryError


def test_failure_text_is_storable_and_keeps_its_cause():
    assert log_and_describe(InvalidError("got a\0b and \ud800, ζ")) == "got a\ufffdb and ?, ζ"
    assert log_and_describe(ImportError("cannot import name 'x' from 'transformers'")) == (
        "The worker has a library that is missing or too old: cannot import name 'x' from 'transformers'. Install what "
        "Isoscope needs there."
    )
    failure = Failure("The loss is not a number.", FailureCause.NOT_A_NUMBER, "learning_rate")
    assert classify_error(OtherProcessError(failure)) == failure


def test_database_outage_is_not_recorded_as_failure(tmp_path):
    outage = OperationalError("select 1", {}, ConnectionError("gone"))
    with pytest.raises(OperationalError, match="gone"):
        record_error(outage, create_sessions(f"sqlite:///{tmp_path}/none.sqlite"), update(Run))


@pytest.mark.parametrize(
    ("error", "cause", "field"),
    [
        (OutOfMemoryError("much"), FailureCause.MEMORY, "batch_size"),
        (torch.OutOfMemoryError("much"), FailureCause.MEMORY, "batch_size"),
        (RuntimeError("[enforce fail] can't allocate memory: 8 bytes"), FailureCause.MEMORY, "batch_size"),
        (NotFoundError("There is no model.", "model"), FailureCause.MODEL, "model"),
        (InvalidError("Row 3 has no text.", "text_columns"), FailureCause.COLUMN, "text_columns"),
        (NotFiniteError("The loss is not a number.", "learning_rate"), FailureCause.NOT_A_NUMBER, "learning_rate"),
        (InvalidError("Expected bf16.", "precision"), FailureCause.SETTING, "precision"),
        (InvalidError("Expected rows, got none."), FailureCause.UNSPECIFIED, None),
        (ArithmeticError("two"), FailureCause.UNSPECIFIED, None),
    ],
)
def test_failure_cause_follows_error(error, cause, field):
    assert classify_error(error)[1:] == (cause, field)
