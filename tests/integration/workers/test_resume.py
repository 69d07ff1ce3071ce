import fcntl
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import delete

from app.core.process import COMPLETE_MARKER
from app.db.models import Phase, Run, RunStatus, Step
from app.db.types import utcnow
from tests.integration.workers.conftest import CONFIG, outcome, queue_again, stop_after, watch_steps
from tests.long_cases import mark_long
from tests.waiting import wait_for
from workers.training import training
from workers.training.folder import RunFolder, remove_unneeded_folders
from workers.training.job import fine_tune
from workers.training.metrics import MetricsCallback
from workers.training.progress import Progress

# Five batches an epoch make three steps: two of two batches, one of one.
ACCUMULATED = {"batch_size": 12, "accumulation": 2}
OPTIONS = {
    "albert, refresh every few steps": {"model": "tiny-albert", "shrinkage_refresh": "steps", "shrinkage_every": 2,
                                        "warmup": 0.3},
    "distilbert, a moving average": {"model": "tiny-distilbert", "shrinkage_refresh": "average",
                                     "shrinkage_momentum": 0.5, "token_fraction": 0.5},
    "roberta, entropy with Adam": {"model": "tiny-roberta", "regularizer": "entropy", "entropy_bars": "all",
                                   "optimizer": "adam", "weight_decay": 0.1},
    "gpt2, three at once in bf16": {"model": "tiny-gpt2", "regularizer": "istar_unbiased", "precision": "bf16",
                                    "fixed_regularizers": {"cosreg": 1.0, "istar": 0.5},
                                    "shrinkage_refresh": "average"},
    "modernbert, checkpointed gradients": {"model": "tiny-modernbert", "regularizer": "cosreg", "schedule": "cosine",
                                           "warmup": 0.2, "gradient_checkpointing": True},
}  # fmt: skip


@pytest.mark.parametrize("step", mark_long([1, 4], (4).__eq__))
def test_killed_run_ends_like_uninterrupted_run(settings, kill, get_run, resume, uninterrupted, monkeypatch, step):
    killed = kill(step)
    assert get_run(killed).status is RunStatus.RUNNING
    checkpoints = {path.name for path in (settings.runs / killed).glob("checkpoint-*")}
    assert checkpoints == {f"checkpoint-{number}" for number in (step - 1, step) if number}
    trained = watch_steps(monkeypatch)
    resumed = resume(killed)
    assert trained == list(range(step + 1, 11))
    assert outcome(resumed) == outcome(uninterrupted())


@pytest.mark.parametrize("name", mark_long(OPTIONS, lambda name: "gpt2" in name))
def test_repeatedly_killed_run_ends_like_uninterrupted_run(
    frequent_settings, make_run, resume, train, killed_after, name
):
    changes = CONFIG | ACCUMULATED | OPTIONS[name]
    killed = make_run(**changes)
    start = 0
    for step in (1, 3, 7):  # mid-epoch, end of epoch, mid-epoch
        with killed_after(step) as trained:
            fine_tune(killed, frequent_settings, "cpu")
        assert trained == list(range(start + 1, step + 2))
        start = step
    assert outcome(resume(killed)) == outcome(train(**changes))


def test_checkpoint_before_first_logged_row_is_used(settings, kill, get_run, killed_after):
    killed = kill(2, CONFIG | {"max_steps": 400})  # logs every four steps
    assert [step.step for step in get_run(killed).steps] == [0]

    with killed_after(4) as trained:
        fine_tune(killed, settings, "cpu")
    assert trained == [3, 4, 5]
    assert [step.step for step in get_run(killed).steps] == [0, 4]


def test_checkpoint_ahead_of_logged_steps_is_not_used(kill, resume, uninterrupted, sessions, monkeypatch):
    killed = kill(7)
    with sessions.begin() as session:  # the other machine started again and got to step 3
        session.execute(delete(Step).where(Step.run_id == killed, Step.step > 3))
    trained = watch_steps(monkeypatch)
    resumed = resume(killed)
    assert trained == list(range(1, 11))
    assert outcome(resumed) == outcome(uninterrupted())


@pytest.mark.both_databases
def test_run_of_killed_process_resumes(settings, frequent_settings, make_run, get_run, resume, uninterrupted, forked):
    killed = make_run(**CONFIG)
    process = forked.Process(target=fine_tune_until_saved, args=(killed, frequent_settings, "cpu"))
    process.start()
    wait_for(lambda: list((settings.runs / killed).glob(f"checkpoint-*/{COMPLETE_MARKER}")), 60)
    process.kill()
    process.join()
    assert process.exitcode == -9
    assert get_run(killed).status is RunStatus.RUNNING
    assert outcome(resume(killed)) == outcome(uninterrupted())


def fine_tune_until_saved(*arguments):
    save = training.CheckpointCallback.on_save
    training.CheckpointCallback.on_save = lambda *state, **options: (save(*state, **options), time.sleep(60))[0]
    fine_tune(*arguments)


def test_checkpoint_resets_attempts(frequent_settings, make_run, get_run, sessions):
    run_id = make_run(**CONFIG | {"max_steps": 2})
    with sessions.begin() as session:
        session.get(Run, run_id).attempts = 3
    fine_tune(run_id, frequent_settings, "cpu")
    assert get_run(run_id).attempts == 0


def test_only_marked_checkpoints_count_and_last_two_are_kept(settings):
    folder = RunFolder(settings, "run")
    with folder.locked():
        assert folder.keep_sound_checkpoint() == (None, [])
        for step in (2, 10):
            (folder.path / f"checkpoint-{step}").mkdir()
            (folder.path / f"checkpoint-{step}" / "weights").touch()
        folder.complete_checkpoint(folder.path / "checkpoint-2")
        assert folder.keep_sound_checkpoint() == (folder.path / "checkpoint-2", [])
        assert [path.name for path in folder.path.iterdir()] == ["checkpoint-2"]
        for step in (8, 9, 10):
            (folder.path / f"checkpoint-{step}").mkdir()
            folder.complete_checkpoint(folder.path / f"checkpoint-{step}")
        assert {path.name for path in folder.path.iterdir()} == {"checkpoint-9", "checkpoint-10"}
    folder.remove()
    folder.remove()
    assert not folder.path.exists()


def test_folders_left_by_a_kill_are_removed(settings, sessions, make_run):
    unfinished, cancelled, held = make_run(), make_run(), make_run()
    with sessions.begin() as session:
        for run_id in (cancelled, held):
            session.get(Run, run_id).status = RunStatus.CANCELLED
    for name in (unfinished, cancelled, held, "of a deleted run"):
        (settings.runs / name).mkdir()
    with RunFolder(settings, held).locked():
        remove_unneeded_folders(settings, sessions)
    assert {path.name for path in settings.runs.iterdir()} == {unfinished, held}


def test_folder_removed_before_locking_is_created_again(settings, monkeypatch):
    folder, flock, removed = RunFolder(settings, "run"), fcntl.flock, []

    def lock_and_remove(handle, how):
        flock(handle, how)
        if not removed:
            removed.append(folder.path.stat().st_ino)
            folder.remove()

    monkeypatch.setattr("workers.training.folder.fcntl.flock", lock_and_remove)
    with folder.locked():
        assert removed
        assert folder.path.is_dir()
        (folder.path / "log.txt").touch()


def test_concurrent_sweeps_do_not_disturb_each_other(settings, sessions):
    for number in range(200):
        (settings.runs / f"left-{number}").mkdir()
    with ThreadPoolExecutor(4) as workers:
        sweeps = [workers.submit(remove_unneeded_folders, settings, sessions) for _ in range(4)]
    assert [future.exception() for future in sweeps] == [None] * 4
    assert list(settings.runs.iterdir()) == []


@pytest.mark.parametrize("state", mark_long([RunStatus.PAUSED, RunStatus.CANCELLED], RunStatus.PAUSED.__eq__))
def test_stopped_run_resumes_from_last_checkpoint(
    settings, frequent_settings, make_run, get_run, resume, uninterrupted, sessions, monkeypatch, state
):
    stopped = make_run(**CONFIG)
    stop_after(monkeypatch, sessions, stopped, 4, state)
    fine_tune(stopped, frequent_settings, "cpu")
    monkeypatch.undo()
    assert get_run(stopped).status is state
    assert {path.name for path in (settings.runs / stopped).glob("checkpoint-*")} == {"checkpoint-3", "checkpoint-4"}
    remove_unneeded_folders(settings, sessions)

    trained = watch_steps(monkeypatch)
    resume(stopped)
    assert trained == [], "the run is still stopped"
    queue_again(sessions, stopped)
    with sessions.begin() as session:
        run = session.get_one(Run, stopped)
        run.started_at, run.finished_at = run.started_at - timedelta(hours=1), run.finished_at - timedelta(hours=1)
    run = resume(stopped)
    assert trained == list(range(5, 11))
    assert run.finished_at - run.started_at > timedelta(hours=1)
    assert 3600 < run.rested_seconds < 3600 + 600
    assert 0 < run.seconds < 600, "working time only"
    assert outcome(run) == outcome(uninterrupted())
    assert not (settings.runs / stopped).exists()


def test_stopped_run_without_checkpoint_starts_again(settings, make_run, resume, uninterrupted, sessions, monkeypatch):
    stopped = make_run(**CONFIG)
    stop_after(monkeypatch, sessions, stopped, 4, RunStatus.PAUSED)
    resume(stopped)
    monkeypatch.undo()
    assert not (settings.runs / stopped).exists()
    queue_again(sessions, stopped)
    assert outcome(resume(stopped)) == outcome(uninterrupted())


def test_checkpoints_of_recently_stopped_runs_are_kept(settings, sessions, make_run, monkeypatch):
    monkeypatch.setattr("workers.training.folder.MAX_UNUSED_FOLDERS", 2)
    now = utcnow()
    hours = {"newest": 1, "newer": 2, "one too many": 3, "old": 24 * 4}
    ids = {name: make_run() for name in (*hours, "finished", "paused long ago")}
    with sessions.begin() as session:
        for name, run_id in ids.items():
            run = session.get_one(Run, run_id)
            run.status = RunStatus.FAILED
            run.finished_at = now - timedelta(hours=hours.get(name, 1))
        session.get_one(Run, ids["finished"]).status = RunStatus.FINISHED
        session.get_one(Run, ids["paused long ago"]).status = RunStatus.PAUSED
    for run_id in ids.values():
        (settings.runs / run_id / "checkpoint-4").mkdir(parents=True)
        (settings.runs / run_id / "checkpoint-4" / COMPLETE_MARKER).touch()
    remove_unneeded_folders(settings, sessions)
    names = {path.name for path in settings.runs.iterdir()}
    assert {name for name, run_id in ids.items() if run_id in names} == {"newest", "newer", "paused long ago"}


def during_loading(monkeypatch, act):
    load = training._load
    monkeypatch.setattr(training, "_load", lambda *arguments: (load(*arguments), act())[0])


def during_evaluation(monkeypatch, act):
    advance = Progress.advance

    def advance_after_act(self, done):
        with self.sessions() as session:
            if session.get_one(Run, self.run_id).phase is Phase.EVALUATING:
                act()
        self._written_at = 0.0
        advance(self, done)

    monkeypatch.setattr(Progress, "advance", advance_after_act)


@pytest.mark.parametrize(
    ("moment", "keeps_folder"), [(during_loading, False), (during_evaluation, True)], ids=["loading", "evaluating"]
)
def test_run_paused_at_any_moment_ends_like_uninterrupted_run(
    client, frequent_settings, make_run, get_run, resume, uninterrupted, monkeypatch, moment, keeps_folder
):
    run_id, answers = make_run(**CONFIG), []
    with monkeypatch.context() as patch:
        moment(patch, lambda: answers.append(client.post(f"/api/runs/{run_id}/pause").status_code))
        fine_tune(run_id, frequent_settings, "cpu")
    assert answers == [200], "paused once"
    paused = get_run(run_id)
    assert (paused.status, paused.worker, paused.phase, paused.error) == (RunStatus.PAUSED, None, None, None)
    assert (frequent_settings.runs / run_id).exists() is keeps_folder
    client.post(f"/api/runs/{run_id}/resume")
    assert outcome(resume(run_id)) == outcome(uninterrupted())
    assert not (frequent_settings.runs / run_id).exists()


def test_failed_run_is_retried_on_another_worker(
    client, frequent_settings, make_run, get_run, sessions, uninterrupted, tmp_path, monkeypatch
):
    home = frequent_settings.model_copy(update={"worker_name": "here"})
    elsewhere = {"worker_name": "there", "data_dir": tmp_path / "there", "database_url": home.database}
    away = home.model_copy(update=elsewhere)
    (tmp_path / "there" / "runs").mkdir(parents=True)
    (tmp_path / "there" / "files").symlink_to(home.files)
    run_id, write = make_run(**CONFIG), MetricsCallback.on_step_end

    def fail(self, args, state, control, **keywords):
        if state.global_step == 3:
            raise RuntimeError("the disk is full")
        return write(self, args, state, control, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(MetricsCallback, "on_step_end", fail)
        fine_tune(run_id, home, "cpu")
    failed = get_run(run_id)
    assert (failed.status, failed.worker) == (RunStatus.FAILED, "here/cpu")
    assert "the disk is full" in failed.log
    assert {path.name for path in (home.runs / run_id).glob("checkpoint-*")} == {"checkpoint-1", "checkpoint-2"}
    client.post(f"/api/runs/{run_id}/retry")
    fine_tune(run_id, away, "cpu")
    assert get_run(run_id).worker == "there/cpu"
    assert outcome(get_run(run_id)) == outcome(uninterrupted())
    remove_unneeded_folders(home, sessions)
    assert list(home.runs.iterdir()) == []
