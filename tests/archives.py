"""An experiment with undefined, failed and unfinished runs, its archive, and zip files made from it."""

import hashlib
import io
import json
import zipfile

from app.db.job_kinds import Queue
from app.db.models import Attempt, RunStatus, Step
from app.db.types import utcnow
from app.db.work import list_waiting_jobs
from app.results.exchange import export_experiment
from app.results.labels import SENTENCE_MEASURES, TRAINING_MEASURES
from tests.factories import add_with_activations, dataset_row, experiment_row, run_row
from workers.process import do_job

GRID = {"warmup": [0.1, 0.0], "batch_size": [8, 32]}
UNDEFINED = "All predictions are equal."


def make_run(lam, seed, position, status=RunStatus.FINISHED, **options):
    done = status is RunStatus.FINISHED
    by_layer = {"values": [None, 0.25], "reasons": ["All points are one.", None]}
    results = {
        "metrics": {"accuracy": 0.75, "matthews": None}, "metric_reasons": {"matthews": UNDEFINED}, "loss": 0.5,
        "n_validation": 40, "tokens": 400, "points": 800, "zeta": 0.0,
        "reference": {"zeta": 0.75, "pooling": "first", "n": 40, "layers": [0.25, 0.5], "layer_reasons": [None, None]},
        "by_layer": dict.fromkeys((*TRAINING_MEASURES, *SENTENCE_MEASURES), by_layer),
        "by_layer_n": dict.fromkeys(SENTENCE_MEASURES, 40),
        "kept": {"as": ["it", "is", 1, True]},
    }  # fmt: skip
    logged = {"penalty": -lam / 3 if lam else 0.0, "layers": {key: [None, 0.1 + 0.2] for key in TRAINING_MEASURES}}
    return run_row(
        lam, seed, config=options, position=position, status=status, worker="machine-0", worked_seconds=12.5,
        timeline=[
            Attempt(number=1, worker="machine-1", outcome="killed", detail="signal SIGKILL", ended_at=utcnow()),
            Attempt(number=2, worker="machine-0", outcome="finished", first_step=3, last_step=9, ended_at=utcnow()),
        ],
        error=None if done else "The loss was not a number at step 20.",
        started_at=utcnow(), finished_at=utcnow() if status.final else None,
        performance=0.75 if done else None, isoscore_star=0.375 + seed / 100 if done else None,
        results=results if done else None, notes=["A batch of 32 was halved."], log="step 10\nstep 20\n",
        environment={"device": "cpu", "packages": {"torch": "2.13.0"}},
        steps=[Step(step=10, task_loss=1 / 10, **logged), Step(step=20, task_loss=1 / 20, **logged), Step(step=30)],
    )  # fmt: skip


def add_experiment(context):
    settings = [{"warmup": warmup, "batch_size": rows} for warmup in GRID["warmup"] for rows in GRID["batch_size"]]
    runs = [make_run(lam, seed, 0, **setting) for setting in settings for lam in (0.0, 1.0) for seed in (0, 1)]
    undefined, failed, running = (make_run(-1.0, seed, 0, status, **settings[0]) for seed, status in enumerate(
        (RunStatus.FINISHED, RunStatus.FAILED, RunStatus.RUNNING)
    ))  # fmt: skip
    undefined.performance, undefined.performance_reason = None, UNDEFINED
    undefined.isoscore_star, undefined.isoscore_star_reason = None, "All points are one."
    runs += [undefined, failed, running]
    dataset = dataset_row("Tiny 数据", train_filename="a.tsv", validation_filename="b.tsv")
    row = experiment_row(*runs, name="A sweep, ζ = 0.2", dataset=dataset, grid=GRID, config=settings[0])
    return add_with_activations(context, row)


def export(client, experiment):
    answer = client.get(f"/api/experiments/{experiment}/export")
    assert answer.status_code == 200, answer.text
    return answer.content


def large_archive(context, experiment, path, steps):
    """Write an archive of an experiment whose runs have ``steps`` steps in total."""
    with export_experiment(context, experiment, lambda _: ()).file as file:
        file.seek(0)
        files = unpack(file.read())
    ids = [json.loads(line)["id"] for line in files["runs.jsonl"].splitlines()]
    line = '{"run":"%s","step":%d,"task_loss":0.125,"penalty":null,"layers":null}\n'
    files["steps.jsonl"] = "".join(line % (run, at) for run in ids for at in range(steps // len(ids))).encode()
    path.write_bytes(pack(files))
    return path


def unpack(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(files, *, manifest=True, compression=zipfile.ZIP_DEFLATED):
    """Return a zip file of ``files``. Updates the manifest, unless ``manifest`` is false."""
    files = dict(files)
    if manifest:
        listing = json.loads(files.pop("manifest.json"))
        listing["members"] = {
            name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)} for name, data in files.items()
        }
        files["manifest.json"] = json.dumps(listing).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def send(client, content, path="/api/experiments/import"):
    """Import a file and return its outcome: the refused response, or the ended import."""
    answer = client.post(path, files={"file": ("sweep.zip", content)})
    if answer.status_code not in {202, 303}:
        return answer
    location = answer.headers["location"]
    finish_imports(client.app.state.context)
    row = client.get(f"/api/imports/{location.rpartition('/')[2]}").json()
    if path.startswith("/api/"):
        return EndedImport(row, client.get(f"/api/experiments/{row['experiment_id']}").json())
    return client.get(location)


def finish_imports(context):
    while jobs := [job for job in list_waiting_jobs(context.sessions) if job.kind.queue is Queue.IMPORTS]:
        for job in jobs:
            do_job(job.kind.work, job.row_id, context.settings, "cpu")


class EndedImport:
    def __init__(self, row, experiment):
        self.is_success = row["status"] == "finished"
        self.status = row["status"]
        self.detail, self.page = row["error"], row["page"]
        self._experiment = experiment

    def json(self):
        assert self.is_success, self.detail
        return self._experiment
