"""Experiments that leave as one file and come in again elsewhere, whole and unchanged or not at all."""

import csv
import hashlib
import html
import io
import json

import pytest
from sqlalchemy import func, select

from app import VERSION
from app.archive.reading import open_archive
from app.db.config import TrainingConfig
from app.db.models import Dataset, Experiment, Run, RunStatus, Step
from app.routes.pages.sweep_figures import FIGURES
from app.services import imports
from tests.archives import GRID, LABELS, UNDEFINED, add_experiment, exported, make_run, members, packed, sent

ROWS = "sentence\tlabel\nthe keys are here\t1\nthe keys is here\t0\nthe dogs run\t1\nthe dogs runs\t0\n"
RUN_FIGURES = ("loss", "penalty", "layers", "twonn", "activation")


@pytest.fixture
def experiment(context):
    return add_experiment(context)


def test_an_experiment_comes_in_elsewhere_with_identical_figures_and_rows(client, experiment, elsewhere):
    imported = sent(elsewhere, exported(client, experiment))
    assert imported.status_code == 201, imported.text
    there = imported.json()
    assert (there["id"] != experiment, there["name"], list(there["grid"])) == (True, "A sweep, ζ = 0.2", list(GRID))
    for slug in FIGURES:
        for kind in ("json", "csv"):
            here, copy = (
                one.get(f"/experiments/{id_}/figures/{slug}.{kind}?seeds=1")
                for one, id_ in ((client, experiment), (elsewhere, there["id"]))
            )
            assert (here.status_code, here.text) == (200, copy.text), (slug, kind)
    runs = client.get(f"/api/experiments/{experiment}").json()["runs"]
    for run, copied in zip(runs, there["runs"], strict=True):
        ours, theirs = client.get(f"/api/runs/{run['id']}").json(), elsewhere.get(f"/api/runs/{copied['id']}").json()
        differ = {
            "id",
            "experiment_id",
            "phase",
            "phase_total",
            *(("status", "notes") if run["status"] == "running" else ()),
        }
        assert {key: ours[key] for key in ours.keys() - differ} == {key: theirs[key] for key in ours.keys() - differ}
        for slug in RUN_FIGURES if run["status"] == "finished" else ("loss",):
            assert (
                client.get(f"/runs/{run['id']}/figures/{slug}.csv").text
                == elsewhere.get(f"/runs/{copied['id']}/figures/{slug}.csv").text
            )
        assert elsewhere.get(f"/runs/{copied['id']}", headers={"Accept": "text/html"}).status_code == 200


def test_what_is_undefined_travels_as_null_with_its_reason_and_never_as_nan(client, context, experiment, elsewhere):
    with context.sessions.begin() as session:
        run = session.scalar(select(Run).where(Run.performance_reason.is_not(None)))
        session.add(Step(run_id=run.id, step=40, task_loss=float("nan"), penalty=float("inf")))
    files = members(exported(client, experiment))
    # Loud where a parser would be lenient: no file may hold a number that JSON has no word for.
    for name in [name for name in files if name.endswith((".json", ".jsonl"))]:
        for line in files[name].splitlines():
            json.loads(line, parse_constant=lambda word, name=name: pytest.fail(f"{name} holds {word}"))
    told = next(one for one in map(json.loads, files["runs.jsonl"].splitlines()) if one["id"] == run.id)
    assert (told["performance"], told["performance_reason"]) == (None, UNDEFINED)
    there = sent(elsewhere, packed(files)).json()
    copied = next(one for one in there["runs"] if one["performance_reason"] is not None)
    assert (copied["performance"], copied["performance_reason"]) == (None, UNDEFINED)
    detail = elsewhere.get(f"/api/runs/{copied['id']}").json()
    assert detail["results"]["metric_reasons"] == {"matthews": UNDEFINED}
    assert detail["results"]["by_layer"]["twonn"] == {"values": [None, 0.25], "reasons": ["All points are one.", None]}
    assert detail["steps"][-1] == {"step": 40, "task_loss": None, "penalty": None, "layers": None}


def test_the_file_says_what_it_is_and_its_manifest_has_the_hash_of_every_other_file(client, experiment):
    answer = client.get(f"/experiments/{experiment}/export.zip?seeds=1")
    assert answer.headers["content-disposition"] == "attachment; filename*=utf-8''isoscope-A-sweep-%CE%B6-0-2.zip"
    files = members(answer.content)
    manifest = json.loads(files["manifest.json"])
    assert (manifest["format"], manifest["isoscope"]) == (1, VERSION)
    assert manifest["members"] == {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        for name, data in files.items()
        if name != "manifest.json"
    }
    assert {name for name in files if name.startswith("figures/")} == {
        f"figures/{slug}.{kind}" for slug in FIGURES for kind in ("json", "csv")
    }
    assert all(
        name.split(".")[0] in files["README.txt"].decode() for name in files if "/" not in name and name != "README.txt"
    )
    with_seeds = client.get(f"/experiments/{experiment}/figures/isotropy.csv?seeds=1").text
    assert files["figures/isotropy.csv"].decode() == with_seeds
    assert next(csv.reader(io.StringIO(with_seeds)))[0] == "lambda"
    steps = [json.loads(line) for line in files["steps.jsonl"].splitlines()]
    assert (len(steps), steps[0]["task_loss"], steps[0]["layers"]["mean_cosine"]) == (57, 0.1, [None, 0.1 + 0.2])


def test_an_unfinished_run_comes_in_as_cancelled_and_says_why(client, experiment, elsewhere):
    there = sent(elsewhere, exported(client, experiment)).json()
    assert [run["status"] for run in there["runs"]].count("cancelled") == 1
    cancelled = next(run for run in there["runs"] if run["status"] == "cancelled")
    assert elsewhere.get(f"/api/runs/{cancelled['id']}").json()["notes"] == [
        "A batch of 32 was halved.",
        "It was running when it was exported, and does not go on here.",
    ]
    assert elsewhere.post(f"/api/runs/{cancelled['id']}/cancel").status_code == 409
    page = html.unescape(elsewhere.get(f"/experiments/{there['id']}").text)
    assert f"elsewhere and imported, as exported by Isoscope {VERSION} at " in page


def test_an_imported_experiment_can_be_deleted_and_imported_again_but_not_twice(client, experiment, elsewhere):
    content = exported(client, experiment)
    first = sent(elsewhere, content).json()
    again = sent(elsewhere, content)
    assert (again.status_code, again.json()["detail"]) == (
        409,
        f"This experiment was imported before and is here as A sweep, ζ = 0.2, /experiments/{first['id']}. "
        "Delete that first to import it again.",
    )
    assert elsewhere.delete(f"/api/experiments/{first['id']}").status_code == 204
    with elsewhere.rows() as session:
        assert session.scalar(select(func.count()).select_from(Step)) == 0
    assert sent(elsewhere, content).status_code == 201


def test_two_exports_of_one_experiment_are_the_same_only_while_nothing_changes(client, context, experiment, elsewhere):
    assert sent(elsewhere, exported(client, experiment)).status_code == 201
    assert sent(elsewhere, exported(client, experiment)).status_code == 409
    with context.sessions.begin() as session:
        session.scalar(select(Run).where(Run.status == RunStatus.RUNNING)).status = RunStatus.FAILED
    second = sent(elsewhere, exported(client, experiment))
    assert second.status_code == 201
    datasets = elsewhere.get("/api/datasets").json()
    assert [(one["name"], one["origin"], one["n_train"]) for one in datasets] == [("Tiny 数据", "named", 100)]
    assert second.json()["dataset_id"] == datasets[0]["id"]
    page = html.unescape(elsewhere.get(f"/datasets/{datasets[0]['id']}").text)
    assert "a name alone, its rows are where its runs were trained" in page


def test_a_data_set_of_the_same_files_is_taken_for_the_data_set(client, context, elsewhere):
    files = {"train": ("train.tsv", ROWS), "validation": ("validation.tsv", ROWS)}
    ours, theirs = (one.post("/api/datasets", files=files, data={"name": name}).json() for one, name in
                    ((client, "ours"), (elsewhere, "theirs")))  # fmt: skip
    config = TrainingConfig(**LABELS).model_dump(mode="json")
    with context.sessions.begin() as session:
        session.add(Experiment(name="x", dataset_id=ours["id"], config=config, runs=[make_run(0.0, 0, 0)]))
    there = sent(elsewhere, exported(client, client.get("/api/experiments").json()[0]["id"])).json()
    assert there["dataset_id"] == theirs["id"]
    assert len(elsewhere.get("/api/datasets").json()) == 1


def test_every_figure_of_the_pages_is_answered_over_the_api_too(client, experiment):
    assert client.get(f"/api/experiments/{experiment}/figures").json() == list(FIGURES)
    for slug in FIGURES:
        page = client.get(f"/experiments/{experiment}/figures/{slug}.json?seeds=1").json()
        found = client.get(f"/api/experiments/{experiment}/figures/{slug}?seeds=1").json()
        assert (found["slug"], found["plot"], found["empty"]) == (slug, page, None)
        csv_rows = list(
            csv.reader(client.get(f"/experiments/{experiment}/figures/{slug}.csv?seeds=1").text.splitlines())
        )
        assert (found["columns"], len(found["rows"])) == (csv_rows[0], len(csv_rows) - 1)
    run = client.get(f"/api/experiments/{experiment}").json()["runs"][0]["id"]
    for slug in RUN_FIGURES:
        page = client.get(f"/runs/{run}/figures/{slug}.json").json()
        assert client.get(f"/api/runs/{run}/figures/{slug}").json()["plot"] == page
    assert client.get(f"/api/runs/{run}/figures/none").json()["detail"] == "There is no figure 'none' of this run."


def test_a_figure_of_nothing_is_an_empty_plot_and_says_what_will_come(client, context):
    config = TrainingConfig(**LABELS).model_dump(mode="json")
    with context.sessions.begin() as session:
        run = make_run(0.0, 0, 0, RunStatus.FAILED)
        row = Experiment(name="x", dataset=Dataset(name="d", origin="upload", columns=[]), config=config, runs=[run])
        session.add(row)
    for slug in ("isotropy", "silhouette", "twonn"):
        assert client.get(f"/experiments/{row.id}/figures/{slug}.json").json()["data"] == []
        found = client.get(f"/api/experiments/{row.id}/figures/{slug}").json()
        assert (found["plot"], found["empty"] is not None) == (None, True)


def test_rows_are_written_in_batches_of_so_many_bytes_of_their_lines(context, client, tmp_path, monkeypatch):
    path = tmp_path / "sweep.zip"
    path.write_bytes(exported(client, add_experiment(context)))
    with open_archive(path) as archive:
        whole = [len(batch) for batch in imports._batches(archive, archive.runs(), 5)]
        longest = max(map(len, members(path.read_bytes())["runs.jsonl"].splitlines()))
        monkeypatch.setattr(imports, "BYTES_AT_ONCE", 2 * longest)
        bounded = [len(batch) for batch in imports._batches(archive, archive.runs(), 5)]
    assert whole == [5, 5, 1]
    assert sum(bounded) == 11
    assert max(bounded) <= 3
