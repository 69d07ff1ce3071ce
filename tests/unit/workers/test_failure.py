import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from app.db.models import Run
from app.db.session import create_sessions
from app.errors import InvalidError
from workers.failure import describe, record


def test_what_no_database_can_keep_of_a_text_is_replaced():
    assert describe(InvalidError("got a\0b and \ud800, ζ")) == "got a\ufffdb and ?, ζ"


def test_a_database_that_is_away_is_no_failure_of_the_job(tmp_path):
    away = OperationalError("select 1", {}, ConnectionError("gone"))
    with pytest.raises(OperationalError, match="gone"):
        record(away, create_sessions(f"sqlite:///{tmp_path}/none.sqlite"), update(Run))
