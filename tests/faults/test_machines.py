import time

import pytest

from app.db.models import RunStatus
from app.training.queue_verbs import pause_run, resume_run
from tests.machines import PATIENCE_SECONDS, STEPS, check_finished, launch, runs_of, start_two, wait_until_training
from tests.waiting import wait_for


@pytest.mark.long
def test_run_of_lost_machine_ends_on_another(context, machine):
    victim, survivor = start_two(context, machine)
    victim.lose()
    wait_for(lambda: runs_of(context)[0].status is RunStatus.FINISHED, PATIENCE_SECONDS)
    check_finished(context, survivor.slot)
    assert not list((context.settings.root.parent / survivor.slot.split("/")[0] / "runs").iterdir())


@pytest.mark.long
def test_runs_continue_while_database_restarts(context, machine, postgresql):
    if not postgresql.is_own:
        pytest.skip("only a PostgreSQL server started for the tests can be restarted")
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


def read_steps(run):
    return [(step.step, step.task_loss, step.penalty, step.layers) for step in run.steps]


@pytest.mark.long
def test_resumed_run_ends_like_uninterrupted_run(context, machine):
    machines = start_two(context, machine)
    run_id = runs_of(context)[0].id
    wait_for(lambda: any(worker_machine.checkpoints(run_id) for worker_machine in machines), PATIENCE_SECONDS)
    pause_run(context, run_id)
    wait_for(lambda: context.queue.list_active() == set(), PATIENCE_SECONDS)
    (paused,) = runs_of(context)
    assert (paused.status, paused.worker) == (RunStatus.PAUSED, None)
    assert any(worker_machine.checkpoints(run_id) for worker_machine in machines)

    resume_run(context, run_id)
    wait_for(lambda: runs_of(context)[0].status is RunStatus.FINISHED, PATIENCE_SECONDS)
    launch(context, steps=STEPS, lambdas=[0.0], seeds=[0])
    wait_for(lambda: all(run.status is RunStatus.FINISHED for run in runs_of(context)), PATIENCE_SECONDS)
    stopped, uninterrupted = sorted(runs_of(context), key=lambda run: run.queued_at)
    assert stopped.id == run_id
    assert read_steps(stopped) == read_steps(uninterrupted)
    assert (stopped.performance, stopped.results) == (uninterrupted.performance, uninterrupted.results)
    assert stopped.attempts <= 1
