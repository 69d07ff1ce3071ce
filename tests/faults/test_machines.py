"""What becomes of runs when a machine, its network or the database is lost in the middle of them."""

import time
from signal import SIGCONT, SIGSTOP
from urllib.parse import urlsplit, urlunsplit

import psutil
import psycopg
import pytest

from app.db.models import RunStatus
from tests.lab import PATIENCE_SECONDS, launch, runs_of, wait_until_training
from tests.proxy import Proxy
from tests.waiting import wait_for
from workers.locks import FENCED_EXIT_CODE

STEPS = 300


def test_the_run_of_a_machine_that_is_lost_for_good_ends_on_another(context, machine):
    victim, survivor = start_two(context, machine)
    victim.lose()
    wait_for(lambda: runs_of(context)[0].status is RunStatus.FINISHED, PATIENCE_SECONDS)
    check_finished(context, survivor.slot)
    assert not list((context.settings.root.parent / survivor.slot.split("/")[0] / "runs").iterdir())


def test_a_machine_that_wakes_after_its_run_was_given_to_another_adds_nothing_to_it(context, machine):
    victim, survivor = start_two(context, machine)
    victim.signal(SIGSTOP)
    # As the server does by itself when a machine has not answered its keepalives for 25 seconds.
    end_sessions_of(victim, context.settings.queue)
    wait_for(lambda: runs_of(context)[0].worker == survivor.slot, PATIENCE_SECONDS)
    victim.signal(SIGCONT)
    wait_for(lambda: runs_of(context)[0].status is RunStatus.FINISHED, PATIENCE_SECONDS)
    check_finished(context, survivor.slot)


def test_a_worker_that_is_cut_off_from_the_database_ends_itself_and_its_jobs(context, machine, settings):
    given = urlsplit(settings.database_url)
    with Proxy(given.hostname, given.port) as proxy:
        through = given._replace(netloc=f"isoscope@127.0.0.1:{proxy.port}")
        worker = machine("alpha", urlunsplit(through))
        launch(context, steps=100_000, lambdas=[0.0], seeds=[0])
        wait_until_training(context)
        tree = worker.tree()
        proxy.cut()
        cut_at = time.monotonic()
        assert worker.process.wait(60) == FENCED_EXIT_CODE
        assert 15 < time.monotonic() - cut_at < 25
    wait_for(lambda: all(is_over(process) for process in tree))
    assert "no answer from PostgreSQL for 20 s" in worker.log()
    assert runs_of(context)[0].error is None


def test_while_the_database_restarts_runs_go_on(context, machine, postgresql):
    if not postgresql.own:
        pytest.skip("the PostgreSQL server that is named is not the tests' own, so it is not restarted")
    worker = machine("alpha")
    launch(context, steps=STEPS, lambdas=[0.0], seeds=[0])
    begun = wait_until_training(context)
    postgresql.stop()
    time.sleep(4)
    postgresql.start()
    wait_for(lambda: runs_of(context)[0].status is RunStatus.FINISHED, PATIENCE_SECONDS)
    run = check_finished(context, worker.slot)
    assert run.started_at == begun.started_at
    assert worker.process.poll() is None


def start_two(context, machine):
    """Two machines, and a run that is at one of them: that one first."""
    both = [machine("alpha"), machine("beta")]
    for one in both:
        wait_for(one.ready, PATIENCE_SECONDS)
    launch(context, steps=STEPS, lambdas=[0.0], seeds=[0])
    slot = wait_until_training(context).worker
    return sorted(both, key=lambda one: one.slot != slot)


def check_finished(context, slot):
    """The only run ended well at that worker, each step once."""
    (run,) = runs_of(context)
    assert (run.status, run.worker, run.error) == (RunStatus.FINISHED, slot, None)
    steps = [step.step for step in run.steps]
    assert steps == list(range(0, STEPS + 1, STEPS // 100))
    wait_for(lambda: context.queue.active() == set())
    return run


def is_over(process):
    """Whether a process has ended, if only its parent has not been told."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def end_sessions_of(machine, url):
    ports = {c.laddr.port for process in machine.tree() for c in process.net_connections() if c.raddr}
    ending = "select pg_terminate_backend(pid) from pg_stat_activity where client_port = any(%s)"
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(ending, (list(ports),))
