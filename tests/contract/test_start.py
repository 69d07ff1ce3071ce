import json
import subprocess
import sys
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


LOOK = """
import json, sys
from fastapi.testclient import TestClient
from app.main import create_app
from app.core.settings import Settings
settings = Settings(data_dir=sys.argv[1], sample=False)
with TestClient(create_app(settings), base_url="http://localhost") as client:
    pages = ("/", "/embeddings", "/experiments", "/experiments/new", "/measures", "/playground", "/queue")
    for path in (*pages, "/api/health", "/api/measures"):
        assert client.get(path).status_code == 200, path
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.slow
def test_web_process_loads_no_torch_and_no_readers(context):
    answer = subprocess.run(
        [sys.executable, "-c", LOOK, str(context.settings.data_dir)], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(answer.stdout.splitlines()[-1]))
    unwanted = {"torch", "transformers", "datasets", "sklearn", "workers", "pyarrow", "h5py", "botocore", "s3fs"}
    assert loaded.isdisjoint(unwanted)
    science = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("isotropy")}
    assert science == {"isotropy", "isotropy.catalog"}


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("workers.__main__", {"torch", "transformers", "sklearn", "scipy", "pandas"}),  # its fork server loads them
        ("isoscope.client", {"torch", "fastapi", "sqlalchemy"}),
    ],
)
def test_worker_main_and_client_load_little(module, unwanted):
    look = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert unwanted.isdisjoint(json.loads(answer.stdout))
