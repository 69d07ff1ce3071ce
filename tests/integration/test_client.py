import json
import re

import httpx2
import numpy as np
import pytest

from app.core.settings import Settings
from app.db.job_kinds import Queue
from app.main import create_app
from isoscope.client import Isoscope, RefusedError
from isoscope.core.errors import InvalidError, IsoscopeError, UnavailableError
from tests.archives import finish_imports
from tests.job_loops import job_thread
from tests.ports import free_port
from tests.serving import serve_in_thread

ROWS = "sentence\tlabel\n" + "".join(f"text {i}\t{i % 2}\n" for i in range(20))
YAML = "model: all-MiniLM-L6-v2\ntext_columns: [sentence]\nlabel_column: label\nseeds: [0, 1]\nlambdas: [1]\n"


@pytest.fixture
def files(tmp_path, cloud):
    np.save(tmp_path / "x.npy", cloud)
    (tmp_path / "rows.tsv").write_text(ROWS)
    (tmp_path / "sweep.yaml").write_text(YAML)
    return tmp_path


def test_sweep_runs_export_and_import_commands(run_cli, files, isoscope, context, monkeypatch):
    isoscope.upload_dataset(files / "rows.tsv", files / "rows.tsv", name="Rows")
    code, out, _ = run_cli("sweep", files / "sweep.yaml", "--dataset", "Rows", "--name", "First")
    launched = isoscope.experiments()[0]
    assert (code, out) == (0, f"First: {isoscope.url}/experiments/{launched['id']}\n")
    code, out, _ = run_cli("runs", "lam>0", "--sort", "seed", "--descending")
    heads, *lines = out.splitlines()
    assert heads.split()[:4] == ["Run", "Experiment", "Status", "Regularizer"]
    assert [line.split()[1:7] for line in lines] == [["First", "queued", "istar", "1", "0.2", s] for s in ("1", "0")]
    plain = [line.split()[3:6] for line in run_cli("runs", "lam:0")[1].splitlines()[1:]]
    assert plain == [["none", "0", "-"]] * 2, "ζ means nothing to plain training"
    assert run_cli("runs", "lam>0", "--limit", "1")[2] == "1 of 2 runs; --all lists them all\n"
    assert len(json.loads(run_cli("runs", "--all", "--json")[1])) == 4
    assert run_cli("runs", "lam>7")[1] == "There are no such runs.\n"
    isoscope.cancel_experiment(launched)
    assert run_cli("export", launched["id"], "-o", files / "first.zip")[:2] == (0, f"{files / 'first.zip'}\n")
    isoscope.delete_experiment(launched)
    code, out, _ = run_cli("import", files / "first.zip", "--no-wait")
    assert (code, out) == (0, f"first.zip: {isoscope.url}/imports/{isoscope.imports()[0]['id']}\n")
    isoscope.cancel_import(isoscope.imports()[0])
    finish_imports(context)  # or the file might be released while it is sent again
    with job_thread(context, lambda job: job.kind.queue is Queue.IMPORTS):
        code, out, err = run_cli("import", files / "first.zip")
    assert err == "No worker is running. The import waits until one starts.\n"
    back = isoscope.experiments()[0]
    assert (code, out) == (0, f"First: {isoscope.url}/experiments/{back['id']}\n")
    assert (back["origin"], back["counts"]) == ("imported", {"cancelled": 4})
    monkeypatch.setattr(Isoscope, "sweep", lambda self, _: self.experiment(back))
    code, out, err = run_cli("sweep", files / "sweep.yaml", "--dataset", "Rows", "--wait")
    assert (code, out) == (1, "4 cancelled\n")
    assert err.endswith("4 of 4 runs have ended\n")
    searched = {"runs": [{"status": "finished"}, {"status": "pruned"}], "held": None}
    monkeypatch.setattr(Isoscope, "wait", lambda *_: searched)
    code, out, _ = run_cli("sweep", files / "sweep.yaml", "--dataset", "Rows", "--wait")
    assert (code, out) == (0, "1 finished, 1 pruned\n")


def test_export_accepts_unique_name(run_cli, files, isoscope):
    isoscope.upload_dataset(files / "rows.tsv", files / "rows.tsv", name="Rows")
    first, second = (isoscope.sweep(files / "sweep.yaml", dataset="Rows")["id"] for _ in range(2))
    sweep = isoscope.sweep({**isoscope.request(first), "name": 'I-STAR "on" agreement'})
    target = files / "named.zip"
    assert run_cli("export", 'I-STAR "on" agreement', "-o", target)[:2] == (0, f"{target}\n")
    assert target.exists()
    assert isoscope.find_experiment(sweep["id"])["name"] == 'I-STAR "on" agreement'
    code, _, err = run_cli("export", isoscope.experiment(first)["name"], "-o", target)
    assert code == 1
    assert "name one by its id" in err
    assert first in err
    assert second in err
    assert "There is no experiment 'I-STAR' on http://" in run_cli("export", "I-STAR")[2]


def test_sweep_prints_plan_without_launching(run_cli, files, isoscope):
    isoscope.upload_dataset(files / "rows.tsv", files / "rows.tsv", name="Rows")
    code, out, _ = run_cli("sweep", "-", "--dataset", "Rows", "--plan", stdin=YAML)
    assert code == 0
    assert out.splitlines() == [
        "(1 baseline + I-STAR × 1 λ) × 2 seeds = 4 runs",
        "The λ = 0 baseline was added, one run for each seed and setting.",
        "2 values of λ cannot show whether performance goes with isotropy. Use 5 or more, λ = 0 included.",
        "2 seeds cannot give a verdict on any λ. Use 3 or more.",
        "24 steps. No worker is running, so the time is unknown.",
    ]
    assert isoscope.experiments() == []


def test_upload_waits_and_prints_table_of_score_command(run_cli, files, work, isoscope, monkeypatch):
    code, out, _ = run_cli("upload", files / "x.npy", "--name", "Cloud", "--draft", "--json")
    draft = json.loads(out)
    assert (code, draft["name"], draft["status"]) == (0, "Cloud", "inspecting")
    work()
    isoscope.commit(draft)
    work()
    scores = isoscope.score(draft)
    assert scores["isoscore"]["status"] == "ok"
    monkeypatch.setattr(Isoscope, "upload", lambda *_, **__: isoscope.embedding(draft))
    code, out, _ = run_cli("upload", files / "x.npy", "--wait")
    where, table = out.split("\n", 1)
    assert (code, where) == (0, f"Cloud: {isoscope.url}/embeddings/{draft['id']}")
    measured, cli = (
        text.partition("\nSpread")[2].splitlines() for text in (table, run_cli("score", files / "x.npy")[1])
    )
    assert [line for line in measured if " IsoScore " in line] == [line for line in cli if " IsoScore " in line] != []
    assert [line[:60] for line in measured] == [line[:60] for line in cli]
    assert sum(" (SE " in line for line in measured) > 5


def test_encode_uses_likeliest_text_column(run_cli, files, isoscope):
    model = ("--model", "all-MiniLM-L6-v2")
    code, out, _ = run_cli("encode", files / "rows.tsv", *model, "--pooling=first", "--layers=0,6", "--plan")
    assert (code, "layers: 2" in out.strip().split(", ")) == (0, True)
    draft = isoscope.encodings()[0]
    code, out, _ = run_cli("encode", "--encoding", draft["id"], *model, "--max-rows=all", "--labels=label")
    assert (code, out) == (0, f"rows: {isoscope.url}/encodings/{draft['id']}\n")
    config = isoscope.encoding(draft)["config"]
    assert (config["text_columns"], config["label_column"], config["max_rows"]) == (["sentence"], "label", None)


def test_misuse_prints_sentence_and_exit_code(run_cli):
    nobody = f"http://127.0.0.1:{free_port()}"
    for words, sentence in (
        (("sweep", "none.yaml"), "none.yaml cannot be read: No such file or directory.\n"),
        (("sweep", "-"), "Expected YAML with one setting per line, such as lambdas: [-1, 1].\n"),
        (("upload", "none.npy"), "none.npy cannot be read: No such file or directory.\n"),
        (("runs", "--sort", "weather"), "weather"),
        (("encode", "--dataset", "Rows", "--model", "m"), "There is no data set 'Rows' on http://127.0.0.1:"),
        (("runs", "--url", nobody), f"No Isoscope answers at {nobody} ("),
    ):
        code, out, err = run_cli(*words)
        assert (code, out) == (1, "")
        assert sentence in err
    for words in (("encode", "x", "--model=m", "--layers=a"), ("encode", "--model=m"), ("sweep",)):
        with pytest.raises(SystemExit) as ended:
            run_cli(*words)
        assert ended.value.code == 2


GONE, SAFETENSORS = "f" * 32, ".safetensors"
VECTORS = "/api/embeddings/{embedding_id}"
TRIALS = f"{VECTORS}/postprocessings"
TRIAL = f"{TRIALS}/{{postprocessing_id}}"
TASK = "/api/tasks/{task_id}"
# Each operation of the API with the call that requests it. A new route needs a client method and a line here.
CALLS = {
    ("GET", "/api/embeddings"): lambda i, _: i.embeddings(),
    ("POST", "/api/embeddings"): lambda i, file: i.upload(file),
    ("GET", VECTORS): lambda i, _: i.embedding(GONE),
    ("PATCH", VECTORS): lambda i, _: i.describe_embedding(GONE, notes="x"),
    ("DELETE", VECTORS): lambda i, _: i.trash_embedding(GONE),
    ("PUT", f"{VECTORS}/selection"): lambda i, _: i.select(GONE, {"vectors": "x"}),
    ("POST", f"{VECTORS}/selections"): lambda i, _: i.select_without(GONE, "outlier_rows"),
    ("POST", f"{VECTORS}/commit"): lambda i, _: i.commit(GONE),
    ("POST", f"{VECTORS}/restore"): lambda i, _: i.restore_embedding(GONE),
    ("GET", f"{VECTORS}/figure-data/{{slug}}"): lambda i, _: i.figure_data(GONE, "projection"),
    ("GET", f"{VECTORS}/neighbors"): lambda i, _: i.neighbors(GONE, "king"),
    ("POST", f"{VECTORS}/neighbors"): lambda i, _: i.request_neighbors(GONE, "king"),
    ("GET", f"{VECTORS}/findings"): lambda i, _: i.findings(GONE),
    ("GET", f"{VECTORS}/curves/zeta"): lambda i, _: i.zeta_curve(GONE),
    ("POST", f"{VECTORS}/curves/zeta"): lambda i, _: i.request_zeta_curve(GONE, GONE),
    ("GET", f"{VECTORS}/files/{{position}}"): lambda i, file: i.download_file(GONE, 0, file),
    ("GET", f"{VECTORS}/vectors.npy"): lambda i, file: i.download_vectors(GONE, file),
    ("GET", f"{VECTORS}/vectors.safetensors"): lambda i, file: i.download_vectors(GONE, file.with_suffix(SAFETENSORS)),
    ("GET", "/api/compare"): lambda i, _: i.compare(GONE, GONE),
    ("GET", "/api/compare/alignments"): lambda i, _: i.alignments(GONE, GONE),
    ("POST", "/api/compare/alignments"): lambda i, _: i.align(GONE, GONE),
    ("GET", "/api/compare/rows"): lambda i, _: i.moved_rows(GONE, GONE),
    ("GET", "/api/tags"): lambda i, _: i.tags(),
    ("GET", "/api/trash"): lambda i, _: i.trash(),
    ("DELETE", "/api/trash"): lambda i, _: i.empty_trash(),
    ("DELETE", "/api/trash/{embedding_id}"): lambda i, _: i.purge_embedding(GONE),
    ("GET", TRIALS): lambda i, _: i.postprocessings(GONE),
    ("POST", TRIALS): lambda i, _: i.postprocess(GONE, "centring"),
    ("GET", TRIAL): lambda i, _: i.postprocessing(GONE, GONE),
    ("DELETE", TRIAL): lambda i, _: i.delete_postprocessing(GONE, GONE),
    ("GET", f"{TRIAL}/map.safetensors"): lambda i, file: i.download_map(GONE, GONE, file),
    ("POST", f"{TRIAL}/embedding"): lambda i, _: i.make_embedding(GONE, GONE),
    ("GET", f"{VECTORS}/tasks"): lambda i, _: i.tasks(GONE),
    ("GET", f"{VECTORS}/tasks/possible"): lambda i, _: i.possible_tasks(GONE),
    ("POST", f"{VECTORS}/tasks"): lambda i, file: i.judge(GONE, "pairs", file),
    ("GET", TASK): lambda i, _: i.task(GONE),
    ("DELETE", TASK): lambda i, _: i.delete_task(GONE),
    ("POST", f"{TASK}/launch"): lambda i, _: i.launch_task(GONE),
    ("GET", f"{TASK}/family"): lambda i, _: i.task_family(GONE),
    ("POST", f"{TASK}/others"): lambda i, _: i.judge_others(GONE),
    ("POST", f"{TASK}/cancel"): lambda i, _: i.cancel_task(GONE),
    ("POST", f"{TASK}/embedding"): lambda i, _: i.keep_task_map(GONE),
    ("GET", f"{TASK}/map.safetensors"): lambda i, file: i.download_task_map(GONE, file),
    ("GET", f"{TASK}/figures/{{slug}}"): lambda i, _: i.figure_of_task(GONE, "bytes"),
    ("GET", "/api/encodings"): lambda i, _: i.encodings(),
    ("POST", "/api/encodings"): lambda i, file: i.upload_texts(file),
    ("GET", "/api/encodings/{encoding_id}"): lambda i, _: i.encoding(GONE),
    ("DELETE", "/api/encodings/{encoding_id}"): lambda i, _: i.delete_encoding(GONE),
    ("POST", "/api/encodings/{encoding_id}/plan"): lambda i, _: i.plan_encoding(GONE, {}),
    ("POST", "/api/encodings/{encoding_id}/launch"): lambda i, _: i.launch_encoding(GONE, {}),
    ("POST", "/api/encodings/{encoding_id}/cancel"): lambda i, _: i.cancel_encoding(GONE),
    ("GET", "/api/encodings/{encoding_id}/layers"): lambda i, _: i.layers(GONE),
    ("GET", "/api/datasets"): lambda i, _: i.datasets(),
    ("POST", "/api/datasets"): lambda i, file: i.upload_dataset(file, file),
    ("POST", "/api/datasets/hub"): lambda i, _: i.hub_dataset("none"),
    ("GET", "/api/datasets/{dataset_id}"): lambda i, _: i.dataset(GONE),
    ("PUT", "/api/datasets/{dataset_id}/quoting"): lambda i, _: i.read_dataset(GONE, "text"),
    ("DELETE", "/api/datasets/{dataset_id}"): lambda i, _: i.delete_dataset(GONE),
    ("POST", "/api/experiments/plan"): lambda i, _: i.plan_sweep({}),
    ("GET", "/api/presets"): lambda i, _: i.presets(),
    ("GET", "/api/experiments"): lambda i, _: i.experiments(),
    ("POST", "/api/experiments"): lambda i, _: i.sweep({}),
    ("GET", "/api/experiments/{experiment_id}"): lambda i, _: i.experiment(GONE),
    ("DELETE", "/api/experiments/{experiment_id}"): lambda i, _: i.delete_experiment(GONE),
    ("GET", "/api/experiments/{experiment_id}/request"): lambda i, _: i.request(GONE),
    ("GET", "/api/experiments/{experiment_id}/runs"): lambda i, _: i.runs(experiment=GONE),
    ("POST", "/api/experiments/{experiment_id}/cancel"): lambda i, _: i.cancel_experiment(GONE),
    ("PATCH", "/api/experiments/{experiment_id}"): lambda i, _: i.describe_experiment(GONE, tags=["x"]),
    ("POST", "/api/experiments/{experiment_id}/retry"): lambda i, _: i.retry_experiment(GONE),
    ("POST", "/api/samples/sweep"): lambda i, _: i.sample_sweep(),
    ("POST", "/api/samples/embedding"): lambda i, _: i.sample_embedding(),
    ("GET", "/api/runs"): lambda i, _: i.runs(),
    ("GET", "/api/runs/{run_id}"): lambda i, _: i.run(GONE),
    ("GET", "/api/runs/{run_id}/predictions"): lambda i, _: list(i.predictions(GONE)),
    ("POST", "/api/runs/{run_id}/predictions"): lambda i, _: i.log_predictions(GONE, {}),
    ("GET", "/api/tokens"): lambda i, _: i.tokens(),
    ("POST", "/api/tokens"): lambda i, _: i.create_token("Ada"),
    ("DELETE", "/api/tokens/{token_id}"): lambda i, _: i.revoke_token(GONE),
    ("GET", "/api/activity"): lambda i, _: i.activity(),
    ("GET", "/api/space"): lambda i, _: i.space(),
    ("GET", "/api/runs/{run_id}/model"): lambda i, file: i.download_model(GONE, file),
    ("GET", "/api/runs/{run_id}/activation"): lambda i, _: i.activation(GONE),
    ("POST", "/api/runs/{run_id}/cancel"): lambda i, _: i.cancel_run(GONE),
    ("PATCH", "/api/runs/{run_id}"): lambda i, _: i.tag_run(GONE, ["x"]),
    ("DELETE", "/api/runs/{run_id}"): lambda i, _: i.delete_run(GONE),
    ("POST", "/api/runs/actions"): lambda i, _: i.act_on_runs("cancel", [GONE]),
    ("POST", "/api/experiments/actions"): lambda i, _: i.act_on_experiments("cancel", [GONE]),
    ("POST", "/api/embeddings/actions"): lambda i, _: i.act_on_embeddings("trash", [GONE]),
    ("POST", "/api/experiments/import"): lambda i, file: i.import_experiment(file, wait=False),
    ("GET", "/api/imports"): lambda i, _: i.imports(),
    ("GET", "/api/imports/{import_id}"): lambda i, _: i.show_import(GONE),
    ("POST", "/api/imports/{import_id}/cancel"): lambda i, _: i.cancel_import(GONE),
    ("GET", "/api/experiments/{experiment_id}/export"): lambda i, file: i.export_experiment(GONE, file),
    ("GET", "/api/experiments/{experiment_id}/figures"): lambda i, _: i.figures(GONE),
    ("GET", "/api/experiments/{experiment_id}/figures/{slug}"): lambda i, _: i.figure(GONE, "lambda"),
    ("GET", "/api/runs/{run_id}/figures/{slug}"): lambda i, _: i.figure_of_run(GONE, "loss"),
    ("GET", f"{VECTORS}/figures/{{slug}}"): lambda i, _: i.figure_of_embedding(GONE, "spectrum"),
    ("GET", f"{TRIAL}/figures/{{slug}}"): lambda i, _: i.figure_of_postprocessing(GONE, GONE, "spectrum"),
    ("GET", "/api/encodings/{encoding_id}/figures/{slug}"): lambda i, _: i.figure_of_encoding(GONE, "heat-map"),
    ("GET", "/api/compare/figures/{slug}"): lambda i, _: i.figure_of_comparison("spectrum", GONE, GONE),
    ("GET", "/api/playground/figures/{slug}"): lambda i, _: i.figure_of_playground("cloud"),
    ("GET", "/api/measures"): lambda i, _: i.measures(),
    ("GET", "/api/playground"): lambda i, _: i.playground("gaussian", 1, 0, 100),
    ("GET", "/api/playground/grid"): lambda i, _: i.playground_grid(),
    ("POST", "/api/studies"): lambda i, _: i.sweep({"search": {}}),
    ("GET", "/api/experiments/{experiment_id}/conclusion"): lambda i, _: i.conclusion(GONE),
    ("POST", "/api/experiments/{experiment_id}/seeds"): lambda i, _: i.add_seeds(GONE),
    ("GET", "/api/experiments/{experiment_id}/opening"): lambda i, _: i.test_scores(GONE),
    ("POST", "/api/experiments/{experiment_id}/opening"): lambda i, _: i.open_test(GONE, "lambda = 1"),
    ("POST", "/api/experiments/{experiment_id}/pause"): lambda i, _: i.pause_experiment(GONE),
    ("POST", "/api/experiments/{experiment_id}/resume"): lambda i, _: i.resume_experiment(GONE),
    ("POST", "/api/experiments/{experiment_id}/move"): lambda i, _: i.move_experiment(GONE, "first"),
    ("PUT", "/api/experiments/{experiment_id}/priority"): lambda i, _: i.prioritize_experiment(GONE, 1),
    ("GET", "/api/runs/{run_id}/request"): lambda i, _: i.request_of_run(GONE),
    ("POST", "/api/runs/{run_id}/pause"): lambda i, _: i.pause_run(GONE),
    ("POST", "/api/runs/{run_id}/resume"): lambda i, _: i.resume_run(GONE),
    ("POST", "/api/runs/{run_id}/retry"): lambda i, _: i.retry_run(GONE),
    ("POST", "/api/runs/{run_id}/move"): lambda i, _: i.move_run(GONE, "last"),
    ("PUT", "/api/runs/{run_id}/priority"): lambda i, _: i.prioritize_run(GONE, 1),
    ("POST", "/api/runs"): lambda i, _: i.begin_run({}),
    ("POST", "/api/runs/{run_id}/steps"): lambda i, _: i.log_steps(GONE, [{"step": 1}]),
    ("POST", "/api/runs/{run_id}/finish"): lambda i, _: i.finish_run(GONE, {}),
    ("GET", "/api/compare/runs/table"): lambda i, _: i.table_of_runs(),
    ("GET", "/api/compare/runs/conclusion"): lambda i, _: i.conclusion_of_runs("lam<9", group=["lam"]),
    ("GET", "/api/compare/runs/settings"): lambda i, _: i.settings_of_runs(),
    ("GET", "/api/compare/runs/figures"): lambda i, _: i.figures_of_runs("seed:0"),
    ("GET", "/api/compare/runs/figures/{slug}"): lambda i, _: i.figure_of_runs("isotropy"),
    ("GET", "/api/queue"): lambda i, _: i.queue(),
    ("POST", "/api/queue/pause"): lambda i, _: i.pause_all(),
    ("POST", "/api/queue/resume"): lambda i, _: i.resume_all(),
    ("GET", "/api/health"): lambda i, _: i.health(),
}


def test_every_api_operation_has_client_method(isoscope, settings, files, monkeypatch):
    paths = create_app(settings).openapi()["paths"]
    operations = [(method.upper(), path) for path, methods in paths.items() for method in methods]
    assert sorted(set(operations) - set(CALLS)) == []
    requested, statuses = [], set()
    send = httpx2.Client.send

    def record_request(client, request, **arguments):
        requested.append((request.method, request.url.path))
        return send(client, request, **arguments)

    monkeypatch.setattr(httpx2.Client, "send", record_request)
    for operation in operations:
        requested.clear()
        try:
            CALLS[operation](isoscope, files / "x.npy")
        except RefusedError as refused:
            statuses.add(refused.status)
        patterns = {key: re.sub(r"\{\w+\}", "[^/]+", key[1]) for key in operations if key[0] == requested[0][0]}
        fitting = [key for key, pattern in patterns.items() if re.fullmatch(pattern, requested[0][1])]
        assert min(fitting, key=lambda key: key[1].count("{")) == operation, "the one with fewest parameters"
    assert statuses <= {404, 415, 422}


def test_upload_returns_scores(isoscope, files, work, cloud):
    sent = []
    draft = isoscope.upload(files / "x.npy", name="Cloud", progress=sent.append)
    assert sum(sent) >= (files / "x.npy").stat().st_size
    work()
    scores = isoscope.score(draft)
    assert 0 < scores["isoscore"]["value"] < 1
    assert isoscope.embeddings("cloud")[0]["isoscore"] == scores["isoscore"]["value"]
    back = isoscope.download_vectors(draft, files / "back.npy")
    assert np.array_equal(np.load(back), cloud)
    assert sorted(path.name for path in files.glob("*.part")) == []


def test_file_called_train_is_named_by_folder(isoscope, files):
    (files / "RTE").mkdir()
    train = (files / "rows.tsv").rename(files / "RTE" / "train.tsv")
    assert isoscope.upload_dataset(train, train)["name"] == "RTE"
    assert isoscope.upload_texts(train)["name"] == "RTE"


def test_sweep_file_uses_named_data_set(isoscope, files):
    isoscope.upload_dataset(files / "rows.tsv", files / "rows.tsv", name="Rows")
    yaml = files / "sweep.yaml"
    yaml.write_text("model: all-MiniLM-L6-v2\ntext_columns: [sentence]\nlabel_column: label\nlambdas: [1e-1]\n")
    launched = isoscope.sweep(yaml, dataset="Rows")
    assert [run["lam"] for run in isoscope.runs(experiment=launched, sort="lam")] == [0.0, 0.1]
    assert [experiment["id"] for experiment in isoscope.all_experiments()] == [launched["id"]]
    notices = []
    isoscope.cancel_experiment(launched)
    assert isoscope.wait(launched, notices.append)["status"] == "cancelled"
    assert len(notices) == 1
    assert "lambda" in isoscope.figures(launched)
    assert isoscope.figure(launched, "lambda")["plot"] is None
    assert isoscope.figure_of_runs("lambda", "lam:0")["plot"] is None
    assert isoscope.table_of_runs("lam:0", group=["lam"])["groups"] == ["lam"]
    isoscope.download_table_of_runs(files / "means.tex", "lam:0", group=["lam"])
    assert "\\toprule" in (files / "means.tex").read_text()
    with pytest.raises(InvalidError, match=r"There is no data set 'Others' on .*; there are: Rows\."):
        isoscope.sweep(yaml, dataset="Others")


def test_unreachable_dashboard_error_names_address_and_remedy():
    port = free_port()
    with Isoscope(f"http://127.0.0.1:{port}") as isoscope, pytest.raises(UnavailableError) as error:
        isoscope.health()
    assert str(error.value).startswith(f"No Isoscope answers at http://127.0.0.1:{port} (")
    assert str(error.value).endswith("Start it with isoscope serve, or name another by --url or ISOSCOPE_URL.")
    for url in ("127.0.0.1:8000", "file:///etc/passwd"):
        with pytest.raises(IsoscopeError, match="Expected the address of a dashboard such as"):
            Isoscope(url)


def test_client_reads_address_and_token_from_environment(context, monkeypatch):
    token = "a-secret-of-many-letters"
    monkeypatch.delenv("ISOSCOPE_ACCESS_TOKEN", raising=False)
    settings = Settings(
        data_dir=context.settings.data_dir, database_url=context.settings.database_url, sample=False, access_token=token
    )
    with serve_in_thread(create_app(settings)) as address:
        monkeypatch.setenv("ISOSCOPE_URL", address)
        with Isoscope() as stranger, pytest.raises(RefusedError) as refused:
            stranger.runs()
        assert refused.value.status == 401
        assert str(refused.value).endswith("It is read from ISOSCOPE_ACCESS_TOKEN.")
        monkeypatch.setenv("ISOSCOPE_ACCESS_TOKEN", token)
        with Isoscope() as connected:
            assert connected.runs() == []


def test_client_explains_bad_files_and_refusals(isoscope, files):
    for call, sentence in (
        (lambda i, _: i.upload(), "Expected a file of embeddings: name one."),
        (lambda i, f: i.upload(f / "none.npy"), "none.npy cannot be read: No such file or directory."),
        (lambda i, f: i.sweep(f / "none.yaml"), "none.yaml cannot be read: No such file or directory."),
        (lambda i, f: i.sweep(f / "x.npy"), "Expected a file of text in UTF-8, got other bytes in"),
        (lambda i, f: i.download_vectors(GONE, f / "x.csv"), "Expected a target that ends in .npy or .safetensors"),
        (lambda i, f: i.download_table_of_runs(f / "x.pdf"), "Expected a target that ends in .md, .tex, .csv, got"),
        (lambda i, f: i.download("/api/openapi.json", f / "no" / "x"), "cannot be written: No such file or directory."),
    ):
        with pytest.raises(InvalidError) as refused:
            call(isoscope, files)
        assert sentence in str(refused.value)
    with pytest.raises(RefusedError) as refused:
        isoscope.run(GONE)
    sentence = f"There is no run {GONE!r}; it may have been deleted with its experiment."
    assert (str(refused.value), refused.value.status) == (sentence, 404)
    with pytest.raises(RefusedError) as refused:
        isoscope.sweep({"model": "m", "lambdas": ["much"]})
    assert (refused.value.field, refused.value.status) == ("text_columns", 422)
