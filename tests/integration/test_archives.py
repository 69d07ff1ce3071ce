import csv
import hashlib
import html
import io
import json
import os
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from app import VERSION
from app.db.config import TrainingConfig
from app.db.models import Experiment, FailureCause, Run, RunStatus, Step
from app.db.study import Search
from app.db.work import list_waiting_jobs
from app.results.archive.reading import check_archive
from app.results.exchange import export_experiment
from app.results.logged_config import ScriptRun
from app.results.logged_runs import MEASURES, begin_run
from app.results.sweep_figures import list_available_slugs
from app.sandbox import run_in_sandbox
from docs.experiment_schema import schema
from tests import factories
from tests.archives import GRID, UNDEFINED, add_experiment, export, make_run, pack, send, unpack
from tests.factories import OPTIONS
from workers.reconciler import advance_searches

SWEEP_FIGURES = list_available_slugs({"search": False})
ROWS = "sentence\tlabel\nthe keys are here\t1\nthe keys is here\t0\nthe dogs run\t1\nthe dogs runs\t0\n"
RUN_FIGURES = ("loss", "penalty", "layers", "twonn", "activation")
RELEASED = Path(os.environ.get("ISOSCOPE_BENCH_DATA", "")) / "experiments" / "mpnet_rte.zip"


@pytest.fixture
def experiment(context):
    return add_experiment(context)


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_import_keeps_figures_and_rows(client, experiment, other_client):
    imported = send(other_client, export(client, experiment))
    assert imported.is_success, imported.detail
    twin = imported.json()
    assert (twin["id"] != experiment, twin["name"], list(twin["grid"])) == (True, "A sweep, ζ = 0.2", list(GRID))
    # The running run withholds the verdict here; its imported copy is cancelled.
    settled = [slug for slug in SWEEP_FIGURES if slug != "differences"]
    for name in (f"{slug}.{kind}" for slug in settled for kind in ("json", "csv")):
        ours = client.get(f"/experiments/{experiment}/figures/{name}?seeds=1")
        theirs = other_client.get(f"/experiments/{twin['id']}/figures/{name}?seeds=1")
        assert (ours.status_code, ours.text) == (200, theirs.text), name
    runs = client.get(f"/api/experiments/{experiment}").json()["runs"]
    for run, copied in zip(runs, twin["runs"], strict=True):
        ours, theirs = client.get(f"/api/runs/{run['id']}").json(), other_client.get(f"/api/runs/{copied['id']}").json()
        unfinished = ("status", "notes", "seconds") if run["status"] == "running" else ()
        compared = ours.keys() - {"id", "experiment_id", "phase", "phase_total", *unfinished}
        assert {key: ours[key] for key in compared} == {key: theirs[key] for key in compared}
        for slug in RUN_FIGURES if run["status"] == "finished" else ("loss",):
            figure = client.get(f"/runs/{run['id']}/figures/{slug}.csv").text
            assert figure == other_client.get(f"/runs/{copied['id']}/figures/{slug}.csv").text
        assert other_client.get(f"/runs/{copied['id']}", headers={"Accept": "text/html"}).status_code == 200
    cancelled = next(run for run in twin["runs"] if run["status"] == "cancelled")
    assert [run["status"] for run in twin["runs"]].count("cancelled") == 1
    notes = ["A batch of 32 was halved.", "It was running when it was exported, and does not continue here."]
    assert other_client.get(f"/api/runs/{cancelled['id']}").json()["notes"] == notes
    assert other_client.post(f"/api/runs/{cancelled['id']}/cancel").status_code == 409
    page = html.unescape(other_client.get(f"/experiments/{twin['id']}?tab=export").text)
    assert f"exported by Isoscope {VERSION} at " in page


@pytest.mark.both_databases
def test_export_omits_runs_begun_meanwhile(context, other_client):
    request = {"experiment": "e", "dataset": "d", "model": "m", "task": "classification", "metric": "accuracy"}

    def begin(seed):
        return begin_run(context, ScriptRun(**request, seed=seed, settings={"lr": 0.1 * (seed + 1)}))

    def draw_figures(experiment):
        begin(1)
        return []

    with export_experiment(context, begin(0).experiment_id, draw_figures).file as file:
        file.seek(0)
        answer = send(other_client, file.read())
    assert answer.json()["grid"] == {}
    assert [run["seed"] for run in answer.json()["runs"]] == [0]


def test_archive_stores_undefined_values_as_null_with_reason(client, context, experiment, other_client):
    with context.sessions.begin() as session:
        run = session.scalar(select(Run).where(Run.performance_reason.is_not(None)))
        session.add(Step(run_id=run.id, step=40, task_loss=float("nan"), penalty=float("inf")))
    files = unpack(export(client, experiment))
    # JSON has no NaN, though parsers accept it.
    for name in [name for name in files if name.endswith((".json", ".jsonl"))]:
        for line in files[name].splitlines():
            json.loads(line, parse_constant=lambda word, name=name: pytest.fail(f"{name} holds {word}"))
    record = next(parsed for parsed in map(json.loads, files["runs.jsonl"].splitlines()) if parsed["id"] == run.id)
    assert (record["performance"], record["performance_reason"]) == (None, UNDEFINED)
    copied_experiment = send(other_client, pack(files)).json()
    copied = next(entry for entry in copied_experiment["runs"] if entry["performance_reason"] is not None)
    assert (copied["performance"], copied["performance_reason"]) == (None, UNDEFINED)
    detail = other_client.get(f"/api/runs/{copied['id']}").json()
    assert detail["results"]["metric_reasons"] == {"matthews": UNDEFINED}
    assert detail["results"]["by_layer"]["twonn"] == {"values": [None, 0.25], "reasons": ["All points are one.", None]}
    assert detail["steps"][-1] == {"step": 40, "task_loss": None, "penalty": None, "layers": None}


def test_archive_follows_published_schema_and_manifest_hashes(client, experiment):
    answer = client.get(f"/experiments/{experiment}/export.zip?seeds=1")
    assert answer.headers["content-disposition"] == "attachment; filename*=utf-8''isoscope-A-sweep-%CE%B6-0-2.zip"
    files, published = unpack(answer.content), schema()
    manifest = json.loads(files["manifest.json"])
    assert (manifest["format"], manifest["isoscope"]) == (1, VERSION)
    assert manifest["members"] == {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        for name, data in files.items()
        if name != "manifest.json"
    }
    figures = {f"figures/{slug}.{kind}" for slug in SWEEP_FIGURES if slug != "scatter" for kind in ("json", "csv")}
    assert {name for name in files if name.startswith("figures/")} == figures
    readme = files["README.txt"].decode()
    assert all(name.split(".")[0] in readme for name in files if "/" not in name and name != "README.txt")
    with_seeds = client.get(f"/experiments/{experiment}/figures/isotropy.csv?seeds=1").text
    assert files["figures/isotropy.csv"].decode() == with_seeds
    assert next(csv.reader(io.StringIO(with_seeds)))[0] == "lambda"
    steps = [json.loads(line) for line in files["steps.jsonl"].splitlines()]
    assert (len(steps), steps[0]["task_loss"], steps[0]["layers"]["mean_cosine"]) == (57, 0.1, [None, 0.1 + 0.2])
    for name, member_schema in published["properties"].items():
        lines = files.get(name, b"").splitlines() if name.endswith(".jsonl") else [files[name]]
        check = jsonschema.Draft202012Validator({**member_schema, "$defs": published["$defs"]})
        for line in lines[:50]:
            check.validate(json.loads(line))


@pytest.mark.both_databases
def test_experiment_is_imported_again_if_deleted_or_changed(client, context, experiment, other_client):
    content = export(client, experiment)
    first = send(other_client, content).json()
    again = send(other_client, content)
    assert (again.status, again.detail) == ("failed", "This experiment already exists: A sweep, ζ = 0.2.")
    assert again.page == f"/experiments/{first['id']}"
    page = send(other_client, content, "/experiments/import")
    message = f'ζ = 0.2. <a href="/experiments/{first["id"]}">Open it</a></p>'
    assert f"This experiment already exists: A sweep, {message}" in page.text
    assert other_client.delete(f"/api/experiments/{first['id']}").status_code == 204
    with other_client.rows() as session:
        assert session.scalar(select(func.count()).select_from(Step)) == 0
    reimported = send(other_client, content).json()
    assert not send(other_client, export(client, experiment)).is_success
    with context.sessions.begin() as session:
        session.scalar(select(Run).where(Run.status == RunStatus.RUNNING)).status = RunStatus.FAILED
        session.get(Experiment, experiment).name = "Renamed"
    second = send(other_client, export(client, experiment)).json()
    assert second["dataset_id"] == reimported["dataset_id"]
    dataset = other_client.get(f"/api/datasets/{second['dataset_id']}").json()
    assert (dataset["name"], dataset["origin"], dataset["n_train"]) == ("Tiny 数据", "named", 100)
    page = html.unescape(other_client.get(f"/datasets/{dataset['id']}").text)
    assert "name only, its rows are not on this dashboard" in page
    again = send(client, content, "/experiments/import")
    assert f'exists: Renamed. <a href="/experiments/{experiment}">Open it</a>' in again.text
    assert len(client.get("/api/experiments").json()) == 1


def test_archive_keeps_tags_of_runs(client, experiment, other_client):
    first, second = (run["id"] for run in client.get(f"/api/experiments/{experiment}").json()["runs"][:2])
    client.patch(f"/api/runs/{first}", json={"tags": ["keep", "for the paper"]})
    client.patch(f"/api/runs/{second}", json={"tags": ["keep"]})
    content = export(client, experiment)
    tag_lists = [json.loads(line).get("tags") for line in unpack(content)["runs.jsonl"].splitlines()]
    assert [tags for tags in tag_lists if tags is not None] == [["for the paper", "keep"], ["keep"]]
    copies = send(other_client, content).json()["runs"]
    tags = [other_client.get(f"/api/runs/{run['id']}").json()["tags"] for run in copies[:3]]
    assert tags == [["for the paper", "keep"], ["keep"], []]
    assert len(other_client.get("/api/runs", params={"q": "tag:keep"}).json()) == 2


@pytest.mark.parametrize("test_split", [{}, {"test": ("test.tsv", ROWS)}])
def test_import_reuses_data_set_with_same_files(client, context, other_client, test_split):
    files = {"train": ("train.tsv", ROWS), "validation": ("validation.tsv", ROWS)}
    if test_split:
        other_client.post("/api/datasets", files=files, data={"name": "without test rows"})
        files |= test_split
    ours, theirs = (dashboard.post("/api/datasets", files=files, data={"name": name}).json() for dashboard, name in
                    ((client, "ours"), (other_client, "theirs")))  # fmt: skip
    config = TrainingConfig(**OPTIONS).model_dump(mode="json")
    with context.sessions.begin() as session:
        session.add(Experiment(name="x", dataset_id=ours["id"], config=config, runs=[make_run(0.0, 0, 0)]))
    copied = send(other_client, export(client, client.get("/api/experiments").json()[0]["id"])).json()
    assert copied["dataset_id"] == theirs["id"]
    assert len(other_client.get("/api/datasets").json()) == 1 + len(test_split)


def test_api_has_every_figure_of_pages(client, context, experiment):
    assert client.get(f"/api/experiments/{experiment}/figures").json() == SWEEP_FIGURES
    for slug in SWEEP_FIGURES:
        page = client.get(f"/experiments/{experiment}/figures/{slug}.json?seeds=1").json()
        figure = client.get(f"/api/experiments/{experiment}/figures/{slug}?seeds=1").json()
        assert (figure["slug"], figure["plot"], figure["empty"]) == (slug, page, None)
        lines = client.get(f"/experiments/{experiment}/figures/{slug}.csv?seeds=1").text.splitlines()
        head, *rows = csv.reader(lines)
        assert (figure["columns"], len(figure["rows"])) == (head, len(rows))
    run = client.get(f"/api/experiments/{experiment}").json()["runs"][0]["id"]
    for slug in RUN_FIGURES:
        page = client.get(f"/runs/{run}/figures/{slug}.json").json()
        assert client.get(f"/api/runs/{run}/figures/{slug}").json()["plot"] == page
    assert client.get(f"/api/runs/{run}/figures/none").json()["detail"] == "There is no figure 'none' of this run."
    failed = factories.add_experiment(context, make_run(0.0, 0, 0, RunStatus.FAILED))
    for slug in ("isotropy", "silhouette", "twonn"):
        assert client.get(f"/experiments/{failed}/figures/{slug}.json").json()["data"] == []
        figure = client.get(f"/api/experiments/{failed}/figures/{slug}").json()
        assert (figure["plot"], figure["empty"] is not None) == (None, True)


def test_archive_keeps_logged_runs_unchanged(client, other_client):
    request = {"experiment": "My loop", "dataset": "words", "model": "mine", "task": "classification",
            "metric": "accuracy", "seed": 0}  # fmt: skip
    settings = {"learning_rate": 1e-4, "tricks": ["a", 1]}
    istar = {"regularizer": "istar", "lam": -1.0, "zeta": 0.25, "settings": settings, "environment": {"at": "mine"}}
    ended, failed, streaming = (
        client.post("/api/runs", json=request | options).json()["id"] for options in (istar, {}, {"seed": 1})
    )
    client.post(f"/api/runs/{ended}/steps", json={"steps": [{"step": 1, "layers": {"twonn": [None, 2.5]}}]})
    ending = {
        "metrics": {"accuracy": 0.5},
        "isoscore_star": 0.25,
        "n_validation": 8,
        "by_layer": {"isoscore_star": {"values": [None, 0.25], "reasons": ["One point.", None], "n": 8}},
        "results": {"hours": 2.5},
    }
    assert client.post(f"/api/runs/{ended}/finish", json=ending).status_code == 200
    assert client.post(f"/api/runs/{failed}/finish", json={"error": "The disk was full."}).status_code == 200
    experiment = client.get("/api/experiments").json()[0]
    imported = send(other_client, export(client, experiment["id"]))
    assert imported.is_success, imported.detail
    arrived = imported.json()
    assert arrived["origin"] == "imported"
    assert arrived["grid"] == client.get(f"/api/experiments/{experiment['id']}").json()["grid"]
    names = ("config", "results", "zeta", "lam", "performance", "error", "environment", "steps", "isoscore_star_reason")
    for ours, theirs in zip((ended, failed, streaming), arrived["runs"], strict=True):
        mine, copy = client.get(f"/api/runs/{ours}").json(), other_client.get(f"/api/runs/{theirs['id']}").json()
        assert {name: mine[name] for name in names} == {name: copy[name] for name in names}
    assert [run["status"] for run in arrived["runs"]] == ["finished", "failed", "cancelled"]
    page = other_client.get(f"/experiments/{arrived['id']}", headers={"accept": "text/html"})
    assert (page.status_code, ">Launch again<" in page.text) == (200, False)
    for slug in other_client.get(f"/api/experiments/{arrived['id']}/figures").json():
        assert other_client.get(f"/api/experiments/{arrived['id']}/figures/{slug}").status_code == 200
    assert send(client, export(other_client, arrived["id"])).is_success


def test_sandbox_returns_archive_unchanged(client, context, experiment, tmp_path):
    with context.sessions.begin() as session:
        session.get(Experiment, experiment).study = Search(trials=7).model_dump(mode="json")
    (path := tmp_path / "experiment.zip").write_bytes(export(client, experiment))
    assert run_in_sandbox(check_archive, path, memory_bytes=2**31, seconds=60) == check_archive(path)


def test_imported_search_is_over_and_keeps_its_runs(client, context, experiment, other_client):
    evaluated = {"metrics": {}, "selection": {"split": "held_out", "history": [[4, 0.5], [8, None]]}}
    search = Search(trials=7, lam_high=2.0)
    with context.sessions.begin() as session:
        session.get(Experiment, experiment).study = search.model_dump(mode="json")
        failed, pruned = (
            session.scalar(select(Run).where(Run.status == status)) for status in (RunStatus.FAILED, RunStatus.RUNNING)
        )
        pruned.status, pruned.results, pruned.performance_reason = RunStatus.PRUNED, evaluated, "Given up."
        failed.cause, failed.error_field = FailureCause.MEMORY, "batch_size"
    imported = send(other_client, export(client, experiment)).json()
    (run,) = [imported_run for imported_run in imported["runs"] if imported_run["status"] == "pruned"]
    assert other_client.get(f"/api/runs/{run['id']}").json()["results"] == evaluated
    over = {"over": True, "why": "It continues on the dashboard that exported it."}
    assert (imported["study"]["trials"], imported["study"]["over"], imported["study"]["why"]) == (7, *over.values())
    with other_client.rows() as session:
        study = session.get(Experiment, imported["id"]).study
        assert Search.model_validate(study) == search.model_copy(update=over)
        run = session.scalar(select(Run).where(Run.status == RunStatus.FAILED))
        assert (run.cause, run.error_field) == (FailureCause.MEMORY, "batch_size")
    assert other_client.get(f"/experiments/{imported['id']}", headers={"accept": "text/html"}).status_code == 200
    advance_searches(other_client.rows)
    assert list_waiting_jobs(other_client.rows) == []


def test_import_rejects_mix_of_logged_and_launched_runs(client, experiment, other_client):
    files = unpack(export(client, experiment))
    first, *later_lines = files["runs.jsonl"].splitlines()
    config = {"logged": True, "model": "mine", "task": "classification", "metric": "accuracy", "regularizer": "none",
              "lam": 0.0, "zeta": 0.2, "seed": 0}  # fmt: skip
    changed = json.dumps(json.loads(first) | {"config": config, "results": None}).encode()
    refused = send(other_client, pack(files | {"runs.jsonl": b"\n".join([changed, *later_lines, b""])}))
    assert "disagree whether it was logged by a script or launched." in refused.detail


@pytest.mark.skipif(not RELEASED.is_file(), reason="ISOSCOPE_BENCH_DATA names no folder with experiments/mpnet_rte.zip")
def test_archive_of_version_0_1_shows_same_numbers(client):
    content = RELEASED.read_bytes()
    response = send(client, content)
    assert response.is_success, response.text
    records = [json.loads(line) for line in unpack(content)["runs.jsonl"].splitlines()]
    experiment = client.get("/api/experiments").json()[0]
    runs = client.get(f"/api/experiments/{experiment['id']}").json()["runs"]
    assert len(runs) == len(records) == 21
    for summary, record in zip(runs, records, strict=True):
        run = client.get(f"/api/runs/{summary['id']}").json()
        for name in ("status", "lam", "zeta", "seed", "performance", "isoscore_star", "config", "results"):
            assert run[name] == record[name], name
        page = client.get(f"/runs/{run['id']}").text
        assert f"{record['performance']:.3f}" in page
    steps = [json.loads(line) for line in unpack(content)["steps.jsonl"].splitlines()]
    run = client.get(f"/api/runs/{runs[0]['id']}").json()
    assert [step["task_loss"] for step in run["steps"]] == [
        step["task_loss"] for step in steps if step["run"] == records[0]["id"]
    ]
    conclusion = client.get(f"/api/experiments/{experiment['id']}/conclusion").json()
    assert [setting["label"] for setting in conclusion["collapsed"]] == ["λ = −5", "λ = −1", "λ = −0.1"]
    assert conclusion["shape"] == "peak"
    page = client.get(f"/experiments/{experiment['id']}").text
    assert "Settings that did not collapse differ in performance" in page
    assert "Performance falls with λ" not in page, "beside a peak"


PLAIN = {
    "experiment": "mine", "dataset": "reviews", "model": "my-bert", "task": "classification", "metric": "accuracy",
    "seed": 0,
}  # fmt: skip
NUMBERS = st.sampled_from([0.0, 1e-323, 1e-150, 1e-101, 1e-100, 0.5, 1.0, 1e6, 1e100, 1.1e100, 1e200]).flatmap(
    lambda size: st.sampled_from([size, -size])
) | st.floats(0, 1)
INTEGERS = st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**53 - 1, 2**53, 2**53 + 1, 2**60, 10**30])
WORDS = st.sampled_from(["a", "hidden", "learning_rate", "batch_size", "layers"])
LINES = st.text(max_size=9) | st.sampled_from([" ", "x" * 1000, "\0", "unknown", "="])
NAMES = LINES.map(lambda text: f"m{text}")
SCALARS = st.booleans() | NUMBERS | INTEGERS | LINES
VALUES = st.lists(st.none() | NUMBERS, max_size=3)
BEGUN = st.fixed_dictionaries({}, optional={
    "model": NAMES, "lam": NUMBERS, "zeta": NUMBERS, "seed": INTEGERS,
    "regularizer": st.sampled_from(["none", "istar", "cosreg"]),
    "settings": st.dictionaries(WORDS, SCALARS | st.lists(SCALARS, max_size=2), max_size=2),
    "environment": st.dictionaries(WORDS, LINES, max_size=1),
    "probe": st.fixed_dictionaries({"tokens": INTEGERS, "texts": INTEGERS}),
})  # fmt: skip
STEPS = st.fixed_dictionaries({"step": INTEGERS}, optional={
    "task_loss": NUMBERS, "penalty": NUMBERS, "reason": LINES,
    "layers": st.dictionaries(st.sampled_from(MEASURES), VALUES, max_size=1),
})  # fmt: skip
ENDED = st.fixed_dictionaries({}, optional={
    "metrics": st.dictionaries(st.sampled_from(["accuracy", "matthews"]), NUMBERS), "isoscore_star": NUMBERS,
    "n_validation": INTEGERS, "error": LINES, "notes": st.lists(LINES, max_size=1),
    "by_layer": st.dictionaries(st.sampled_from(MEASURES),
                                st.fixed_dictionaries({"values": VALUES}, optional={"n": INTEGERS}), max_size=1),
    "results": st.dictionaries(WORDS, SCALARS, max_size=1),
})  # fmt: skip
ACCEPTED = {200, 201}


def log_or_plain(client, path, random_values, plain):
    """Post random values, or plain ones if those are refused with a sentence."""
    answer = client.post(path, json=random_values)
    assert answer.status_code in {*ACCEPTED, 413, 422}, answer.text
    if answer.status_code not in ACCEPTED:
        assert answer.json()["detail"]
        answer = client.post(path, json=plain)
        assert answer.status_code in ACCEPTED, answer.text
    return answer.json()


@pytest.mark.long
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))  # on either database
@given(begun=st.lists(BEGUN, min_size=1, max_size=2), steps=st.lists(STEPS, max_size=2), ended=ENDED)
def test_logged_runs_can_be_imported_elsewhere(client, other_client, begun, steps, ended):
    ours = twin = None
    try:
        for random_values in begun:
            run = log_or_plain(client, "/api/runs", PLAIN | random_values, PLAIN)
            ours = run["experiment_id"]
            for step in steps:
                log_or_plain(client, f"/api/runs/{run['id']}/steps", {"steps": [step]}, {"steps": []})
            log_or_plain(client, f"/api/runs/{run['id']}/finish", ended, {})
        answer = send(other_client, export(client, ours))
        assert answer.is_success, answer.detail
        twin = answer.json()["id"]
        runs, copies = (
            api.get(f"/api/experiments/{row}").json() for api, row in ((client, ours), (other_client, twin))
        )
        assert copies["grid"] == runs["grid"]
        for run, copy in zip(runs["runs"], copies["runs"], strict=True):
            first = client.get(f"/api/runs/{run['id']}").json()
            second = other_client.get(f"/api/runs/{copy['id']}").json()
            for name in ("config", "steps", "results", "performance", "isoscore_star", "status", "notes"):
                assert second[name] == first[name], name
    finally:
        for api, row in ((client, ours), (other_client, twin)):
            if row is not None:
                assert api.delete(f"/api/experiments/{row}").status_code == 204
