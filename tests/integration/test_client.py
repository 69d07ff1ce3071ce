import re

import httpx2
import numpy as np
import pytest

from app.core.settings import Settings
from app.main import create_app
from isoscope.client import Isoscope, RefusedError
from isoscope.core.errors import InvalidError, IsoscopeError, UnavailableError
from tests.ports import free_port
from tests.serving import serve_in_thread

ROWS = "sentence\tlabel\n" + "".join(f"text {i}\t{i % 2}\n" for i in range(20))
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


@pytest.fixture
def files(tmp_path, cloud):
    np.save(tmp_path / "x.npy", cloud)
    (tmp_path / "rows.tsv").write_text(ROWS)
    return tmp_path


def match_operation(method, path, keys):
    """Return the operation that a request matches, preferring fewer path parameters."""
    fitting = [key for key in keys if key[0] == method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", key[1]), path)]
    return min(fitting, key=lambda key: key[1].count("{"))


def call_status(call, *arguments):
    try:
        call(*arguments)
    except RefusedError as refused:
        return refused.status
    return 200


def test_every_api_operation_has_client_method(isoscope, settings, files, monkeypatch):
    paths = create_app(settings).openapi()["paths"]
    operations = [(method.upper(), path) for path, methods in paths.items() for method in methods]
    assert sorted(set(operations) - set(CALLS)) == []
    requested = []
    send = httpx2.Client.send

    def record_request(client, request, **arguments):
        requested.append((request.method, request.url.path))
        return send(client, request, **arguments)

    monkeypatch.setattr(httpx2.Client, "send", record_request)
    for operation in operations:
        requested.clear()
        status = call_status(CALLS[operation], isoscope, files / "x.npy")
        assert (match_operation(*requested[0], operations), status in {200, 404, 415, 422}) == (operation, True)


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
