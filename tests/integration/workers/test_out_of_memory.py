import pytest
import torch

from app.db.models import Run, RunStatus
from workers.training.job import fine_tune
from workers.training.trainer import IsotropyTrainer

KINDS = [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("DefaultCPUAllocator: can't allocate memory")]


@pytest.fixture
def narrow(monkeypatch):
    """Let no batch of more rows than that through, from a step on."""

    def narrow(rows, error, from_step=0):
        loss = IsotropyTrainer.compute_loss
        sizes = []

        def compute_loss(self, model, inputs, *args, **keywords):
            sizes.append(len(inputs["labels"]))
            if self.state.global_step >= from_step and len(inputs["labels"]) > rows:
                raise error
            return loss(self, model, inputs, *args, **keywords)

        monkeypatch.setattr(IsotropyTrainer, "compute_loss", compute_loss)
        return sizes

    return narrow


@pytest.mark.parametrize("error", KINDS)
def test_it_goes_on_with_half_the_rows_a_batch_and_says_so(train, narrow, error):
    sizes = narrow(8, error)
    run = train(epochs=1)
    assert run.notes == [
        "Memory ran out with 16 rows a batch. From step 1 on a batch has 8, and 2 batches make a step instead of 1: as "
        "many rows a step as before. From then on each penalty is computed on 8 rows instead of "
        "16, which changes its value."
    ]
    assert run.environment["batches"] == {"batch_size": 8, "accumulation": 2, "processes": 1, "rows_per_step": 16}
    assert run.config.batch_size == 16
    assert sizes == [16, *[8] * 7, 4]
    assert [step.step for step in run.steps] == [0, 1, 2, 3, 4]
    assert "Traceback" in run.log


def test_it_goes_on_from_the_last_checkpoint_with_the_rows_that_are_left(often, make_run, get_run, narrow):
    sizes = narrow(8, KINDS[0], from_step=2)
    run_id = make_run(epochs=1, regularizer="none", lam=0)
    fine_tune(run_id, often, "cpu")
    run = get_run(run_id)
    assert sizes == [16, 16, 16, 8, 8, 8, 4]
    assert run.notes[0].startswith("Memory ran out with 16 rows a batch. From step 3 on a batch has 8")
    assert [step.step for step in run.steps] == [0, 1, 2, 3, 4]


def test_a_second_time_it_fails_with_the_cause_and_the_log(settings, make_run, get_run, narrow):
    sizes = narrow(4, KINDS[0])
    run_id = make_run(epochs=1)
    fine_tune(run_id, settings, "cpu")
    run = get_run(run_id)
    assert sizes == [16, 8]
    assert run.status is RunStatus.FAILED
    assert run.error.startswith("There was not enough memory. Take fewer rows")
    assert len(run.notes) == 1
    assert run.log.count("CUDA out of memory") >= 2
    assert list(settings.runs.iterdir()) == []


def test_a_run_that_is_killed_afterwards_keeps_the_smaller_batch(settings, sessions, train, get_run, narrow):
    sizes = narrow(8, KINDS[0])
    run = train(epochs=1)
    with sessions.begin() as session:  # as if the kill had come before its end
        session.get(Run, run.id).status = RunStatus.RUNNING
    sizes.clear()
    fine_tune(run.id, settings, "cpu")
    assert sizes == [*[8] * 7, 4]
    assert get_run(run.id).notes == run.notes
