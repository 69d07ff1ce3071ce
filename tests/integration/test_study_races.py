from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest
from sqlalchemy import select, text

from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import Experiment, Run, RunStatus
from app.db.session import create_sessions
from app.db.study import Search
from app.db.work import list_waiting_jobs
from app.training.experiments import cancel_experiment, delete_experiment
from app.training.queue_verbs import pause_all, pause_experiment
from isoscope.core.errors import ConflictError
from tests.factories import add_experiment, run_row
from workers.reconciler import advance_searches
from workers.training.search import advance_search

WORKERS = 4


def add(context, **search):
    """Add a search whose baseline has ended, so that trials can start; return its id."""
    study = Search(**{"zeta_low": 0.1, "zeta_high": 0.9} | search).model_dump(mode="json")
    return add_experiment(context, run_row(0.0, zeta=0), name="e", study=study)


@pytest.fixture
def workers(context):
    """Database sessions of several workers, each with separate connections."""
    worker_sessions = [create_sessions(context.settings.database) for _ in range(WORKERS)]
    yield worker_sessions
    for sessions in worker_sessions:
        sessions.kw["bind"].dispose()


def call_at_once(*calls):
    start = Barrier(len(calls))

    def make(call):
        start.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return [future.result() for future in [threads.submit(make, call) for call in calls]]


def runs_of(context, experiment_id):
    with context.sessions() as session:
        return list(session.scalars(select(Run).where(Run.experiment_id == experiment_id).order_by(Run.position)))


def end(context, run_id):
    with context.sessions.begin() as session:
        run = session.get_one(Run, run_id)
        run.status, run.performance = RunStatus.FINISHED, 0.5


@pytest.mark.both_databases
def test_concurrent_workers_never_exceed_at_once(context, workers):
    experiment_id, max_running = add(context, trials=7, at_once=2), 2
    row_ids = []
    while context.sessions().get(Experiment, experiment_id).searching:
        jobs = call_at_once(*(partial(advance_search, sessions, experiment_id) for sessions in workers))
        row_ids += [job.row_id for batch in jobs for job in batch]
        waiting = [run.id for run in runs_of(context, experiment_id) if not run.status.final]
        assert len(waiting) <= max_running
        for run_id in waiting:
            end(context, run_id)
    runs = runs_of(context, experiment_id)
    assert [run.position for run in runs] == list(range(8))
    assert row_ids == [run.id for run in runs[1:]], "one worker enqueues each"


def test_trials_queue_in_order_and_stay_in_zeta_range(context):
    experiment_id = add(context, at_once=3)
    jobs = advance_search(context.sessions, experiment_id)
    assert list_waiting_jobs(context.sessions) == jobs
    assert [job.row_id for job in jobs] == [run.id for run in runs_of(context, experiment_id)[1:]]
    assert len(jobs) == 3
    low, high = 0.123451, 0.123459
    experiment_id = add(context, zeta_low=low, zeta_high=high, trials=3)
    for _ in range(4):
        for job in advance_search(context.sessions, experiment_id):
            end(context, job.row_id)
    runs = runs_of(context, experiment_id)
    assert len(runs) == 4
    assert all(low <= run.zeta <= high for run in runs[1:])


@pytest.mark.parametrize(
    ("stop", "state"),
    [(cancel_experiment, RunStatus.CANCELLED), (pause_experiment, RunStatus.PAUSED),
     (lambda context, _: pause_all(context), RunStatus.PAUSED)], ids=["cancelled", "paused", "all paused"],
)  # fmt: skip
@pytest.mark.both_databases
def test_no_trial_is_added_while_search_is_stopped(context, workers, stop, state):
    for _ in range(3):
        experiment_id = add(context, at_once=2)
        advance_search(context.sessions, experiment_id)
        end(context, runs_of(context, experiment_id)[1].id)
        asking = [partial(advance_search, sessions, experiment_id) for sessions in workers]
        call_at_once(*asking, partial(stop, context, experiment_id))
        assert advance_search(context.sessions, experiment_id) == []
        unended = {run.status for run in runs_of(context, experiment_id)} - {RunStatus.FINISHED}
        assert unended == {state}
        assert list_waiting_jobs(context.sessions) == []


def test_search_must_be_cancelled_before_deletion(context, workers):
    experiment_id = add(context)
    with pytest.raises(
        ConflictError, match=r"^Its search is still running\. Cancel the search before deleting the experiment\.$"
    ):
        delete_experiment(context, experiment_id)
    cancel_experiment(context, experiment_id)
    asking = [partial(advance_search, sessions, experiment_id) for sessions in workers]
    results = call_at_once(*asking, partial(delete_experiment, context, experiment_id))
    assert results == [[]] * WORKERS + [None]
    with context.sessions() as session:
        assert session.scalars(select(Run.id)).all() == []
    assert advance_search(context.sessions, experiment_id) == []


def test_unreadable_search_delays_no_other(context):
    broken, intact = add(context), add(context)
    with context.sessions.begin() as session:
        broken_search = text('update experiments set study = \'{"trials": "many"}\' where id = :id')
        session.execute(broken_search, {"id": broken})
    advance_searches(context.sessions)
    assert [len(runs_of(context, experiment_id)) for experiment_id in (broken, intact)] == [1, 2]
    assert list_waiting_jobs(context.sessions) == [Job(job_kinds.FINETUNE, runs_of(context, intact)[1].id)]
