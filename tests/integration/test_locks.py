import psycopg
import pytest

from app.db.work import FileLocks
from isoscope.core.errors import ConflictError
from tests.waiting import wait_for
from workers import locks
from workers.locks import FENCED_EXIT_CODE, AdvisoryLocks, open_locks


def end_no_jobs() -> None:
    pass


@pytest.mark.both_databases
def test_slot_is_held_by_one_worker_until_released(context, tmp_path):
    def open_worker_locks():
        return open_locks(context.settings.queue, tmp_path, end_no_jobs)

    with open_worker_locks() as mine, open_worker_locks() as theirs, mine.held("here/cpu"):
        for locks in (mine, theirs):
            with pytest.raises(ConflictError, match="already works as here/cpu") as refused, locks.held("here/cpu"):
                pass
        assert "ISOSCOPE_WORKER_NAME" in str(refused.value)
        with theirs.held("there/cpu"):
            pass
    with open_worker_locks() as mine, open_worker_locks() as theirs:
        for holder in (mine, theirs):
            with holder.held("here/cpu"):
                pass
    assert FileLocks(tmp_path).is_settled


class TestAdvisoryLocks:
    @pytest.fixture(autouse=True)
    def short_intervals(self, monkeypatch):
        monkeypatch.setattr(locks, "CHECK_EVERY_SECONDS", 0.05)
        monkeypatch.setattr(locks, "SETTLED_SECONDS", 60)

    def test_lost_session_is_reopened_with_its_locks(self, postgresql_url):
        with AdvisoryLocks(postgresql_url, end_no_jobs) as mine, mine.held("here/cpu"):
            assert not mine.is_settled, "a new session cannot tell yet which workers are dead"
            mine._opened_at -= locks.SETTLED_SECONDS
            assert mine.is_settled
            end_other_sessions(postgresql_url)
            wait_for(lambda: not (mine.is_settled or mine._connection.closed))
            assert count_locks(postgresql_url) == 1
            mine._opened_at -= locks.SETTLED_SECONDS
            assert mine.is_settled
            with mine.held("there/cpu"):
                assert count_locks(postgresql_url) == 2
        wait_for(lambda: count_locks(postgresql_url) == 0)

    def test_lost_session_grants_no_lock(self, postgresql_url, monkeypatch):
        monkeypatch.setattr(locks, "CHECK_EVERY_SECONDS", 60)  # no reconnection during the test
        with AdvisoryLocks(postgresql_url, end_no_jobs) as mine:
            mine._connection.close()
            with pytest.raises(ConflictError, match="the lock of there/cpu is lost"), mine.held("there/cpu"):
                pass

    def test_worker_that_lost_its_lock_exits(self, postgresql_url, forked):
        holder = forked.Process(target=hold_until_fenced, args=(postgresql_url,))
        holder.start()
        wait_for(lambda: count_locks(postgresql_url) == 1, 60)
        with psycopg.connect(postgresql_url, autocommit=True) as connection:
            end_other_sessions(postgresql_url, except_pid=connection.info.backend_pid)
            wait_for(
                lambda: connection.execute(
                    f"select pg_try_advisory_lock({locks.LOCK_NUMBER_SQL})", ("here/cpu",)
                ).fetchone()[0]
            )
            holder.join(60)
        assert holder.exitcode == FENCED_EXIT_CODE

    def test_unreachable_server_is_explained(self):
        with (
            pytest.raises(ConflictError, match=r"does not answer: .* Start it, or correct ISOSCOPE_QUEUE_URL"),
            AdvisoryLocks("postgresql://isoscope@127.0.0.1:1/isoscope", end_no_jobs),
        ):
            pass


def hold_until_fenced(url: str) -> None:
    # Checks so rarely that the other session gets the lock first.
    locks.CHECK_EVERY_SECONDS, locks.FENCE_SECONDS = 2, 5
    with AdvisoryLocks(url, end_no_jobs) as mine, mine.held("here/cpu"):
        wait_for(lambda: False, 60)


def end_other_sessions(url: str, except_pid: int = 0) -> None:
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid not in (pg_backend_pid(), %s)",
            (except_pid,),
        )


def count_locks(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as session:
        row = session.execute(
            "select count(*) from pg_locks where locktype = 'advisory' and granted "
            "and database = (select oid from pg_database where datname = current_database())"
        ).fetchone()
    return row[0]
