"""The web process must start fast and on machines without torch; a worker loads torch once, in its fork server."""

import json
import subprocess
import sys

import pytest

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
