import json
from zipfile import ZipFile

import psutil
import pytest
import torch
from safetensors.torch import load

from app.core.process import COMPLETE_MARKER
from app.db.models import FailureCause, Run, RunStatus, Split
from app.db.predictions import read_predictions
from app.db.study import Search
from app.storage import open_storage
from isoscope.core.errors import InvalidError
from isotropy.catalog import Regularizer
from tests.factories import PLAIN
from tests.rounding import tolerance
from tests.unit.workers.test_placement import config
from tests.waiting import wait_for
from workers.failure import Failure
from workers.training import ddp_launch
from workers.training.job import fine_tune
from workers.training.search import MIN_FINISHED_RUNS

# A step has 16 of 48 rows, in one process or two: accelerate deals the batches of one seeded order to the processes.
# Texts have different lengths, so processes see different numbers of tokens.
OPTIONS = {
    "model": "no-dropout", "train_rows": 48, "epochs": None, "max_steps": 5, "export": True, "lam": 1.0,
    "learning_rate": 1e-3,
}  # fmt: skip
ISTAR = {"regularizer": "istar"}
ACCUMULATED = {"regularizer": "istar", "accumulation": 2, "fixed_regularizers": {"cosreg": 1.0}}
ENTROPY = {
    "regularizer": "entropy", "entropy_bars": "all", "fixed_regularizers": {"istar_unbiased": 1.0, "spectrum": 1e-3},
}  # fmt: skip

STEP_TOLERANCE = tolerance(100, torch.float32)
"""More than the rounding of a step of these tiny models, and what five steps of Adam make of it."""
CONFIG = {"epochs": None, "max_steps": 100, "processes": 2, "batch_size": 8, "evaluate_every": 25, "checkpoint": "best"}


@pytest.mark.parametrize(
    # Bars are differences of nearly equal float32 numbers, and Adam enlarges the smallest gradients.
    ("options", "rel"),
    [
        pytest.param(ISTAR, STEP_TOLERANCE, marks=pytest.mark.long),
        (ACCUMULATED, STEP_TOLERANCE),
        pytest.param(ENTROPY, 1e-4, marks=pytest.mark.long),
    ],
    ids=["istar", "accumulated", "entropy"],
)
def test_two_processes_train_like_one(settings, sessions, train, copy_model, options, rel):
    path = copy_model("no-dropout") / "config.json"
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    path.write_text(json.dumps(json.loads(path.read_text()) | dropout))
    accumulation = options.get("accumulation", 1)
    single = train(**OPTIONS | options, batch_size=16 // accumulation)
    parallel = train(**OPTIONS | options, batch_size=8 // accumulation, processes=2)
    assert parallel.environment["batches"]["rows_per_step"] == single.environment["batches"]["rows_per_step"] == 16
    assert [step.step for step in parallel.steps] == [step.step for step in single.steps] == list(range(6))
    for ours, theirs in zip(parallel.steps[1:], single.steps[1:], strict=True):
        assert ours.task_loss == pytest.approx(theirs.task_loss, rel=rel)
        assert ours.penalty == pytest.approx(theirs.penalty, rel=rel)
    assert parallel.results.loss == pytest.approx(single.results.loss, rel=rel)
    with sessions() as session:
        ours, theirs = read_predictions(session, [parallel.id, single.id], Split.VALIDATION).values()
    assert (ours.rows.tolist(), ours.reference.tolist()) == (theirs.rows.tolist(), theirs.reference.tolist())
    for run, stored in ((parallel, ours), (single, theirs)):
        assert run.results.metrics["accuracy"] == (stored.predicted == stored.reference).mean()
    if options is ENTROPY:
        return
    folder = open_storage(settings)
    archives = (ZipFile(folder.local_path(run.model_sha256)) for run in (parallel, single))
    weights, expected = (load(archive.read("model.safetensors")) for archive in archives)
    # Attention ignores the bias of keys: its gradient is rounding error, which Adam enlarges.
    for name in [name for name in weights if not name.endswith("key.bias")]:
        weight = weights[name]
        assert torch.linalg.norm(weight - expected[name]) <= rel * max(1, torch.linalg.norm(expected[name])), name


@pytest.fixture
def training(settings, make_run, forked):
    frequent_settings = settings.model_copy(update={"checkpoint_seconds": 0.1})
    run_id = make_run(**CONFIG)
    job = forked.Process(target=fine_tune, args=(run_id, frequent_settings, "cpu"))
    job.start()
    wait_for(lambda: list((settings.runs / run_id).glob(f"checkpoint-*/{COMPLETE_MARKER}")), seconds=120)
    children = psutil.Process(job.pid).children(recursive=True)
    ranks = [child for child in children if child.ppid() != job.pid]
    assert len(ranks) == 2
    yield job, run_id, ranks
    job.kill()
    job.join()


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_killed_process_ends_the_others_and_run_resumes(settings, get_run, resume, uninterrupted, request, rank):
    expected = uninterrupted(CONFIG)
    job, run_id, ranks = request.getfixturevalue("training")  # which is killed while it trains
    ranks[rank].kill()
    job.join(timeout=30)
    assert job.exitcode == 1
    psutil.wait_procs(ranks, timeout=10)
    assert not any(process.is_running() for process in ranks)
    assert (get_run(run_id).status, get_run(run_id).error) == (RunStatus.RUNNING, None)

    resumed = resume(run_id)
    assert resumed.status is RunStatus.FINISHED
    assert [step.step for step in resumed.steps] == [step.step for step in expected.steps]
    assert resumed.results.selection == expected.results.selection
    for ours, theirs in zip(resumed.steps[1:], expected.steps[1:], strict=True):
        assert (ours.task_loss, ours.penalty, ours.layers) == (theirs.task_loss, theirs.penalty, theirs.layers)
    assert list(settings.runs.iterdir()) == []


def test_processes_of_killed_job_end(training):
    job, _, ranks = training
    job.kill()
    gone, alive = psutil.wait_procs(ranks, timeout=20)
    assert (len(gone), alive) == (2, [])


def test_pruned_run_ends_in_all_processes(settings, make_run, get_run, sessions):
    run_id = make_run(**CONFIG | {"max_steps": 40, "evaluate_every": 4})
    better = {"status": RunStatus.FINISHED, "lam": 1.0, "zeta": 0.2, "seed": 0, "performance": 2.0}
    history = {"metrics": {}, "selection": {"history": [[step, 2.0] for step in range(4, 41, 4)]}}
    with sessions.begin() as session:
        experiment = session.get_one(Run, run_id).experiment
        experiment.study = Search(prune=True, trials=MIN_FINISHED_RUNS + 1).model_dump(mode="json")
        for position in range(MIN_FINISHED_RUNS + 1):
            regularizer = Regularizer.ISTAR if position else Regularizer.NONE
            row = Run(position=position, config=PLAIN, regularizer=regularizer, results=history, **better)
            experiment.runs.append(row)
        session.get_one(Run, run_id).position = MIN_FINISHED_RUNS + 1
    assert fine_tune(run_id, settings, "cpu") == []
    run = get_run(run_id)
    assert (run.status, run.error) == (RunStatus.PRUNED, None)
    assert [step for step, _ in run.results.selection.history] == [4]
    assert run.notes[0].startswith("Pruned at step 4: accuracy on the selection rows was")
    assert max(step.step for step in run.steps) <= 4
    assert "step 3 of 40" in run.log
    assert "Traceback" not in run.log
    assert "A new study" not in run.log
    assert list(settings.runs.iterdir()) == []


def test_error_in_a_process_becomes_error_of_run(settings, make_run, get_run):
    run_id = make_run(processes=2, label_names=["1", "2"])
    fine_tune(run_id, settings, "cpu")
    run = get_run(run_id)
    assert run.status is RunStatus.FAILED
    assert "has the label '0' in column 'label'; expected one of 1, 2." in run.error


def test_out_of_memory_in_a_process_halves_batch_of_all(settings, make_run, get_run, monkeypatch):
    monkeypatch.setattr(ddp_launch, "_run_rank", out_of_memory)
    run_id = make_run(processes=2)
    fine_tune(run_id, settings, "cpu")
    run = get_run(run_id)
    assert (run.status, run.error[:28]) == (RunStatus.FAILED, "There was not enough memory.")
    assert run.environment["batches"] == {"batch_size": 8, "accumulation": 2, "processes": 2, "rows_per_step": 32}
    assert run.notes[0].startswith("Memory ran out with 32 rows per batch. From step 1 on, each batch has 16 rows")


def out_of_memory(rank, spec, run_id, slot, settings, device, rendezvous, sender):
    end, cause = ("OUT_OF_MEMORY", FailureCause.MEMORY) if rank else ("FAILED", FailureCause.UNSPECIFIED)
    sender.send((ddp_launch.RankEnd[end], Failure("lost its neighbor", cause, None)))


def test_each_process_needs_a_separate_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert ddp_launch.assign_devices(config(processes=3), "cuda:2") == ["cuda:2", "cuda:3", "cuda:0"]
    with pytest.raises(InvalidError, match=r"^Expected at most 4 processes, one for each device.*got 5\."):
        ddp_launch.assign_devices(config(processes=5), "cuda")
    with pytest.raises(InvalidError, match=r"^Expected at most 1 processes"):
        ddp_launch.assign_devices(config(processes=2), "mps")
    assert ddp_launch.assign_devices(config(processes=3), "cpu") == ["cpu"] * 3
