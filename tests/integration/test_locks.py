from multiprocessing import get_context

import psycopg
import pytest

from app.db.work import FileLocks
from isoscope.core.errors import ConflictError
from tests.waiting import wait_for
from workers import locks
from workers.locks import FENCED_EXIT_CODE, AdvisoryLocks, open_locks


def end_nothing() -> None:
    """There is no job to end."""


@pytest.fixture
def open_another(context, tmp_path):
    """Open locks as another worker of the same queue does."""
    return lambda: open_locks(context.settings.queue, tmp_path, end_nothing)


@pytest.mark.both_databases
def test_a_name_is_held_by_one_worker_at_a_time_and_free_again_when_its_holder_lets_go(open_another, tmp_path):
    with open_another() as mine, open_another() as theirs, mine.held("here/cpu"):
        for locks in (mine, theirs):
            with pytest.raises(ConflictError, match="already works as here/cpu") as refused, locks.held("here/cpu"):
                pass
        assert "ISOSCOPE_WORKER_NAME" in str(refused.value)
        with theirs.held("there/cpu"):
            pass
    with open_another() as mine, open_another() as theirs:
        for holder in (mine, theirs):
            with holder.held("here/cpu"):
                pass
    assert FileLocks(tmp_path).is_settled


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(locks, "CHECK_EVERY_SECONDS", 0.05)
    monkeypatch.setattr(locks, "SETTLED_SECONDS", 0.5)


@pytest.mark.usefixtures("quick")
class TestAdvisoryLocks:
    def test_a_lost_session_is_opened_anew_and_holds_the_same_locks(self, postgresql_url):
        with AdvisoryLocks(postgresql_url, end_nothing) as mine, mine.held("here/cpu"):
            assert not mine.is_settled, "a new session takes nobody for dead yet"
            wait_for(lambda: mine.is_settled)
            end_other_sessions(postgresql_url)
            wait_for(lambda: not mine.is_settled)
            wait_for(lambda: held_in(postgresql_url) == 1)
            wait_for(lambda: mine.is_settled)
            with mine.held("there/cpu"):
                assert held_in(postgresql_url) == 2
        wait_for(lambda: held_in(postgresql_url) == 0)

    def test_while_its_session_is_lost_no_other_lock_is_given(self, postgresql_url, monkeypatch):
        monkeypatch.setattr(locks, "CHECK_EVERY_SECONDS", 60)  # it is not opened anew before the test is over
        with AdvisoryLocks(postgresql_url, end_nothing) as mine:
            mine._connection.close()
            with pytest.raises(ConflictError, match="the lock of there/cpu is lost"), mine.held("there/cpu"):
                pass

    def test_a_worker_whose_lock_another_has_taken_ends_itself(self, postgresql_url):
        holder = get_context("spawn").Process(target=hold_until_fenced, args=(postgresql_url,))
        holder.start()
        wait_for(lambda: held_in(postgresql_url) == 1, 60)
        with psycopg.connect(postgresql_url, autocommit=True) as connection:
            end_other_sessions(postgresql_url, but=connection.info.backend_pid)
            wait_for(
                lambda: connection.execute(
                    f"select pg_try_advisory_lock({locks.LOCK_NUMBER_SQL})", ("here/cpu",)
                ).fetchone()[0]
            )
            holder.join(60)
        assert holder.exitcode == FENCED_EXIT_CODE

    def test_a_server_that_does_not_answer_is_told_in_a_sentence(self):
        with (
            pytest.raises(ConflictError, match=r"does not answer: .* Start it, or correct ISOSCOPE_QUEUE_URL"),
            AdvisoryLocks("postgresql://isoscope@127.0.0.1:1/isoscope", end_nothing),
        ):
            pass


def hold_until_fenced(url: str) -> None:
    # So slow to look that the other one takes the lock first.
    locks.CHECK_EVERY_SECONDS, locks.FENCE_SECONDS = 2, 5
    with AdvisoryLocks(url, end_nothing) as mine, mine.held("here/cpu"):
        wait_for(lambda: False, 60)


def end_other_sessions(url: str, but: int = 0) -> None:
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid not in (pg_backend_pid(), %s)",
            (but,),
        )


def held_in(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as session:
        row = session.execute(
            "select count(*) from pg_locks where locktype = 'advisory' and granted "
            "and database = (select oid from pg_database where datname = current_database())"
        ).fetchone()
    return row[0]
