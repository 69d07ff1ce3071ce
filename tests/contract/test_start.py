"""`make run` starts, works and stops. Without torch only the web process is started, as in its image."""

from importlib.util import find_spec

import pytest
from httpx2 import Client

from app.operations.doctor import CHECKS, PROBLEM, run_checks
from tests.serving import web_process
from tests.uploads.good import npy


@pytest.fixture
def cloud_file(cloud):
    return {"file": ("cloud.npy", npy(cloud))}


@pytest.mark.long
@pytest.mark.slow
def test_doctor_finds_no_problem_and_upload_queues_job(context, monkeypatch, cloud_file):
    monkeypatch.setenv("ISOSCOPE_DATA_DIR", str(context.settings.data_dir))
    assert [result for result in run_checks(CHECKS) if result[1] == PROBLEM] == []
    with web_process(context.settings) as address, Client(base_url=address, timeout=30) as client:
        response = client.post("/api/embeddings?commit=auto", files=cloud_file)
        assert response.status_code == 201
    assert context.queue.list_active() == {f"inspect-{response.json()['id']}"}


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="There is no torch here, so no worker.")
def test_dashboard_measures_upload_and_stops_on_ctrl_c(serving, cloud_file):
    dashboard = serving()
    embedding = dashboard.post("/api/embeddings?commit=auto", files=cloud_file)
    path = f"/api/embeddings/{embedding['id']}"
    dashboard.wait_for(lambda: dashboard.get(path)["status"] == "ready", "measurements")
    assert dashboard.stop() == 0
