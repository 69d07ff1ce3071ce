"""What earlier versions wrote is upgraded and read: data folders, exports, YAML files and requests in JSON.

``tests/fixtures/earlier`` says how they were made.
"""

import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fastapi.testclient import TestClient

from app.context import Context, create_context
from app.core.settings import Settings
from app.db.models import Run, RunStatus
from app.db.reported_config import ReportedRunConfig
from app.main import create_app
from app.operations.checks import Level
from app.operations.checks.databases import metrics_database, queue_database
from app.operations.checks.machine import storage
from app.operations.migrate import migrate
from isoscope.files.yaml_document import read_yaml
from tests.archives import finish_imports

HERE = Path(__file__).parents[1] / "fixtures" / "earlier"
VERSIONS = sorted(folder.name for folder in HERE.iterdir() if (folder / "told.json").exists())
LINK = re.compile(r'(?:href|hx-get|src)="(/[^"#?]*)')
NOTE = "`beside` is now called `fixed_regularizers`."
EXPORTS = ("sweep", "search", "logged")


class Earlier(NamedTuple):
    """A dashboard on a data folder of an earlier version, upgraded."""

    client: TestClient
    context: Context
    folder: Path
    told: dict[str, Any]

    @property
    def ids(self) -> dict[str, str]:
        """What that version made, by what it is."""
        return dict(self.told["ids"])


@pytest.fixture(scope="module", params=VERSIONS)
def upgraded(request, tmp_path_factory) -> tuple[Path, Path]:
    """The fixtures of a version, and its data folder after ``isoscope migrate``."""
    folder = HERE / request.param
    data = tmp_path_factory.mktemp(request.param) / "data"
    with tarfile.open(folder / "data.tar.xz") as archive:
        archive.extractall(data, filter="data")
    migrate(Settings(data_dir=data, sample=False))
    return folder, data


@pytest.fixture
def earlier(upgraded, models_dir, tmp_path) -> Iterator[Earlier]:
    """A copy of that folder, served."""
    folder, data = upgraded
    shutil.copytree(data, tmp_path / "data")
    settings = Settings(data_dir=tmp_path / "data", models_dir=models_dir, sample=False)
    context = create_context(settings)
    with TestClient(create_app(settings), base_url="http://localhost", follow_redirects=False) as client:
        yield Earlier(client, context, folder, json.loads((folder / "told.json").read_text()))
    context.close()


def test_the_doctor_finds_nothing_wrong_with_an_upgraded_folder(upgraded):
    settings = Settings(data_dir=upgraded[1], sample=False)
    found = [one for check in (metrics_database, queue_database, storage) for one in check(settings)]
    assert found
    assert [one for one in found if one.level is Level.PROBLEM] == []


def test_every_page_that_can_be_reached_opens(earlier):
    found, waiting = set(), ["/"]
    while waiting:
        address = waiting.pop()
        if address in found:
            continue
        found.add(address)
        answer = earlier.client.get(address, headers={"accept": "text/html"})
        assert answer.status_code in (200, 303, 307), (address, answer.text)
        if answer.headers.get("content-type", "").startswith("text/html"):
            waiting += [link for link in LINK.findall(answer.text) if not link.startswith("/static/")]
    for kind in ("embeddings", "experiments", "datasets", "encodings", "runs"):
        assert any(address.startswith(f"/{kind}/") for address in found)


def test_the_api_answers_with_all_that_was_stored(earlier):
    ids = earlier.ids
    for address in (
        f"/embeddings/{ids['embedding']}",
        f"/embeddings/{ids['embedding']}/postprocessings/{ids['postprocessing']}",
        f"/datasets/{ids['dataset']}",
        f"/encodings/{ids['encoding']}",
        *(f"/experiments/{ids[name]}{what}" for name in ("sweep", "search", "grid") for what in ("", "/request")),
        *(f"/experiments/{ids[name]}/conclusion" for name in EXPORTS),
    ):
        answer = earlier.client.get(f"/api{address}")
        assert answer.status_code == 200, (address, answer.text)


def test_configurations_are_read_under_their_names_of_now(earlier):
    with earlier.context.sessions() as session:
        by_experiment: dict[str, list[Run]] = {}
        for run in session.query(Run).order_by(Run.position):
            by_experiment.setdefault(run.experiment_id, []).append(run)
    launched = by_experiment[earlier.ids["sweep"]]
    assert [run.launched_config.weights for run in launched] == [{"cosreg": 0.5}, {"istar": 1.0, "cosreg": 0.5}]
    assert {run.status for run in launched} == {RunStatus.FINISHED}
    logged = [run.config for run in by_experiment[earlier.ids["logged"]]]
    assert all(isinstance(config, ReportedRunConfig) for config in logged)
    assert [config.value("learning_rate") for config in logged] == [1e-4, 3e-4]
    assert [config.value("dropout_kind", "not said") for config in logged] == ["none", "not said"]
    varied = {run.config.value("batch_size") for run in by_experiment[earlier.ids["grid"]]}
    assert varied == {8, 16}


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_is_imported_with_the_same_numbers(name, upgraded, context, client, rows_of):
    folder, data = upgraded
    with (folder / f"{name}.zip").open("rb") as file:
        sent = client.post("/api/experiments/import", files={"file": (f"{name}.zip", file)})
    assert sent.status_code == 202, sent.text
    finish_imports(context)
    ended = client.get(f"/api/imports/{sent.json()['id']}").json()
    assert (ended["status"], ended["error"]) == ("finished", None)
    experiment = ended["experiment_id"]
    assert client.get(f"/experiments/{experiment}").status_code == 200
    assert rows_of(context, experiment) == rows_of(data, json.loads((folder / "told.json").read_text())["ids"][name])


@pytest.fixture
def rows_of():
    """What was measured of the runs of an experiment, and what they were asked to do."""

    def read(where, experiment_id):
        context = where if isinstance(where, Context) else create_context(Settings(data_dir=where, sample=False))
        with context.sessions() as session:
            runs = session.query(Run).where(Run.experiment_id == experiment_id).order_by(Run.position).all()
            found = [(run.config.dump(), run.results, run.performance, len(run.steps)) for run in runs]
        if where is not context:
            context.close()
        return found

    return read


def test_what_clients_sent_is_taken_and_old_names_are_noted(earlier):
    run = ""
    for one in earlier.told["sent"]:
        path = re.sub(r"^/runs/[0-9a-f]{32}", f"/runs/{run}", one["path"]).replace("/launch", "/plan")
        answer = earlier.client.post(f"/api{path}", json=one["body"])
        assert answer.is_success, (path, answer.text)
        run = answer.json()["id"] if path == "/runs" else run
        assert (answer.headers.get("x-isoscope-note") == NOTE) == ("beside" in one["body"])


@pytest.mark.parametrize("name", ["sweep", "search", "grid"])
def test_requests_are_launched_again_from_json_and_from_yaml(name, earlier):
    path = "/api/studies" if name == "search" else "/api/experiments"
    written = read_yaml((earlier.folder / f"{name}.yaml").read_text())
    answers = [earlier.client.post(path, json=request) for request in (earlier.told["requests"][name], written)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert [answer.headers["x-isoscope-note"] for answer in answers] == [NOTE, NOTE]
    first, second = (answer.json() for answer in answers)
    assert (first["config"], first["grid"]) == (second["config"], second["grid"])
    assert "beside" not in {*first["config"], *first["grid"]}


def test_a_file_of_a_sweep_fills_the_form_and_says_what_is_called_otherwise(earlier):
    text = (earlier.folder / "sweep.yaml").read_text()
    answer = earlier.client.post("/experiments/new/yaml", data={"yaml": text}, headers={"accept": "text/html"})
    page = answer.text if answer.status_code == 200 else earlier.client.get(answer.headers["location"]).text
    assert NOTE.replace("`", "") in page
