import inspect
import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import httpx2
import numpy as np
import pytest

from app.core.settings import Settings
from app.main import create_app
from isoscope.client import Isoscope, RefusedError
from isoscope.client.connection import Connection
from isoscope.core.errors import InvalidError, IsoscopeError, UnavailableError
from tests.ports import free_port
from tests.serving import serve_in_thread

ROWS = "sentence\tlabel\n" + "".join(f"text {i}\t{i % 2}\n" for i in range(20))
GONE = "f" * 32
DOCUMENTS = ("request", "config", "selection", "announcement", "predictions", "ending")


@pytest.fixture
def files(tmp_path, cloud):
    np.save(tmp_path / "x.npy", cloud)
    (tmp_path / "rows.tsv").write_text(ROWS)
    return tmp_path


def match_operation(method, path, operations):
    """Return the operation that a request matches, preferring fewer path parameters."""
    routes = [route for name, route in operations if name == method]
    fitting = [route for route in routes if re.fullmatch(re.sub(r"{\w+}", "[^/]+", route), path)]
    return method, min(fitting, key=lambda route: route.count("{"))


def list_calls(isoscope, path):
    """Yield a call of each method of the client, with ids that do not exist, this file and empty documents."""
    values = dict.fromkeys(("train", "file", "files", "target"), path) | {key: {} for key in DOCUMENTS}
    values["steps"] = [{"step": 1}]
    for name, method in inspect.getmembers(isoscope, inspect.ismethod):
        if name.startswith("_") or hasattr(Connection, name) or name == "import_experiment":
            continue
        parameters = inspect.signature(method).parameters.values()
        required = [row.name for row in parameters if row.default is row.empty and row.kind is not row.VAR_KEYWORD]
        yield partial(method, *(values.get(argument, GONE) for argument in required))
    yield partial(isoscope.import_experiment, path, wait=False)
    yield partial(isoscope.download_vectors, GONE, path.with_suffix(".safetensors"))
    yield partial(isoscope.sweep, {"search": {}})
    yield partial(isoscope.runs, experiment=GONE)


def test_every_api_operation_has_client_method(isoscope, settings, files, monkeypatch):
    paths = create_app(settings).openapi()["paths"]
    operations = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    requested = []
    send = httpx2.Client.send

    def record_request(client, request, **arguments):
        response = send(client, request, **arguments)
        requested.append((match_operation(request.method, request.url.path, operations), response.status_code))
        return response

    monkeypatch.setattr(httpx2.Client, "send", record_request)
    for call in list_calls(isoscope, files / "x.npy"):
        with suppress(IsoscopeError):
            deque(answer if isinstance(answer := call(), Iterator) else ())
    assert {operation for operation, _ in requested} == operations
    assert {status for _, status in requested} <= {200, 201, 202, 204, 404, 415, 422}


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
