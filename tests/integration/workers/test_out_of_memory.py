import pytest
import torch

from app.db.models import Attempt, AttemptOutcome, Run, RunStatus
from app.db.work import SHARED_MEMORY_NOTE, begin_attempt, slot_name
from tests.integration.workers.conftest import outcome
from workers.job_rows import job_sessions
from workers.training.job import fine_tune
from workers.training.trainer import IsotropyTrainer

KINDS = [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("DefaultCPUAllocator: can't allocate memory")]


def limit_batches(monkeypatch, rows, error, from_step=0):
    """Raise an error for batches of more rows, from a step on; return the batch sizes."""
    loss = IsotropyTrainer.compute_loss
    sizes = []

    def compute_loss(self, model, inputs, *args, **keywords):
        sizes.append(len(inputs["labels"]))
        if self.state.global_step >= from_step and len(inputs["labels"]) > rows:
            raise error
        return loss(self, model, inputs, *args, **keywords)

    monkeypatch.setattr(IsotropyTrainer, "compute_loss", compute_loss)
    return sizes


@pytest.mark.parametrize("error", KINDS)
def test_batch_is_halved_and_noted(train, monkeypatch, error):
    sizes = limit_batches(monkeypatch, 8, error)
    run = train(epochs=1)
    assert run.notes == [
        "Memory ran out with 16 rows per batch. From step 1 on, each batch has 8 rows, and each step averages 2 "
        "batches instead of 1, so that it still uses the same number of rows. From then on, each penalty is computed "
        "on 8 rows instead of 16, which changes its value."
    ]
    assert run.environment["batches"] == {"batch_size": 8, "accumulation": 2, "processes": 1, "rows_per_step": 16}
    assert run.config.batch_size == 16
    assert sizes == [16, *[8] * 7, 4]
    assert [step.step for step in run.steps] == [0, 1, 2, 3, 4]
    assert "Traceback" in run.log


def test_training_continues_from_checkpoint_with_smaller_batch(frequent_settings, make_run, get_run, monkeypatch):
    sizes = limit_batches(monkeypatch, 8, KINDS[0], from_step=2)
    run_id = make_run(epochs=1, regularizer="none", lam=0)
    fine_tune(run_id, frequent_settings, "cpu")
    run = get_run(run_id)
    assert sizes == [16, 16, 16, 8, 8, 8, 4]
    assert run.notes[0].startswith("Memory ran out with 16 rows per batch. From step 3 on, each batch has 8 rows")
    assert [step.step for step in run.steps] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("where", ["load_model", "compute_loss"])
def test_run_out_of_memory_beside_others_goes_on_alone(frequent_settings, make_run, get_run, train, monkeypatch, where):
    config = {"epochs": 1, "regularizer": "none", "lam": 0}
    undisturbed = train(**config)
    run_id, neighbor_id = make_run(**config), make_run(**config)
    slot = slot_name(frequent_settings, "cpu")
    with job_sessions(frequent_settings).begin() as session:
        for row_id in (neighbor_id, run_id):
            begin_attempt(session, row_id, slot)
    with monkeypatch.context() as patches:
        if where == "load_model":
            patches.setattr("workers.training.training.load_model", raise_out_of_memory)
        else:
            loss = IsotropyTrainer.compute_loss
            patches.setattr(IsotropyTrainer, "compute_loss", lambda self, *arguments, **keywords: (
                raise_out_of_memory() if self.state.global_step == 2 else loss(self, *arguments, **keywords)
            ))  # fmt: skip
        fine_tune(run_id, frequent_settings, "cpu")
    run = get_run(run_id)
    assert (run.status, run.worker, run.whole_device) == (RunStatus.QUEUED, None, True)
    with job_sessions(frequent_settings).begin() as session:
        assert session.get_one(Attempt, (run_id, 1)).outcome is AttemptOutcome.FAILED
        begin_attempt(session, run_id, slot)
    fine_tune(run_id, frequent_settings, "cpu")
    assert outcome(get_run(run_id)) == outcome(undisturbed)
    assert get_run(run_id).notes == [SHARED_MEMORY_NOTE]


def raise_out_of_memory(*_, **__):
    raise KINDS[0]


def test_second_out_of_memory_error_fails_the_run(settings, make_run, get_run, monkeypatch):
    sizes = limit_batches(monkeypatch, 4, KINDS[0])
    run_id = make_run(epochs=1)
    fine_tune(run_id, settings, "cpu")
    run = get_run(run_id)
    assert sizes == [16, 8]
    assert run.status is RunStatus.FAILED
    assert run.error.startswith("There was not enough memory. Take fewer rows")
    assert len(run.notes) == 1
    assert run.log.count("CUDA out of memory") >= 2
    assert list(settings.runs.iterdir()) == []


def test_killed_run_keeps_smaller_batch(settings, sessions, train, get_run, monkeypatch):
    sizes = limit_batches(monkeypatch, 8, KINDS[0])
    run = train(epochs=1)
    with sessions.begin() as session:  # as if it was killed before its end
        session.get(Run, run.id).status = RunStatus.RUNNING
    sizes.clear()
    fine_tune(run.id, settings, "cpu")
    assert sizes == [*[8] * 7, 4]
    assert get_run(run.id).notes == run.notes
