import time

import pytest

from app.db.models import RunStatus
from tests.lab import PATIENCE_SECONDS, STEPS, check_finished, launch, runs_of, start_two, wait_until_training
from tests.waiting import wait_for


def test_the_run_of_a_machine_that_is_lost_for_good_ends_on_another(context, machine):
    victim, survivor = start_two(context, machine)
    victim.lose()
    wait_for(lambda: runs_of(context)[0].status is RunStatus.FINISHED, PATIENCE_SECONDS)
    check_finished(context, survivor.slot)
    assert not list((context.settings.root.parent / survivor.slot.split("/")[0] / "runs").iterdir())


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
