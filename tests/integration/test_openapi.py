import subprocess
import sys

import httpx2
import pytest

from app.main import create_app
from tests.factories import add_copy
from tests.postgresql import is_available
from tests.serving import web_process
from tests.uploads.good import GOOD

ROWS = "sentence\tlabel\nthe keys are here\t1\nthe keys is here\t0\nthe dogs run\t1\nthe dogs runs\t0\n"
SCRIPT_RUN = {
    "experiment": "mine", "dataset": "words", "model": "mine", "task": "classification", "metric": "accuracy",
    "seed": 0,
}  # fmt: skip
# Form parts are bytes of any type; an import checks them later.
ANY_FILE = """
[[operations]]
include-name = "POST /api/experiments/import"
[operations.checks.negative_data_rejection]
enabled = false
"""
# Random bytes are rightly refused: no schema describes valid files. If a path has several routes, Starlette's Allow
# lists the methods of the first.
EXCLUDED_CHECKS = "positive_data_acceptance,allow_header_conformance"
EXAMPLES = 2


@pytest.fixture
def ids(client, context, work):
    uploaded = [
        client.post(f"/api/embeddings{query}", files={"file": ("x.npy", GOOD["x.npy"])}).json()["id"]
        for query in ["?commit=auto"] * 2 + [""] * 4
    ]
    work()
    embeddings = [*uploaded, *(add_copy(context, uploaded[0]) for _ in range(12))]
    files = {"train": ("train.tsv", ROWS), "validation": ("validation.tsv", ROWS)}
    datasets = [client.post("/api/datasets", files=files).json()["id"] for _ in range(4)]
    sweep = {"model": "all-MiniLM-L6-v2", "dataset_id": datasets[0], "text_columns": ["sentence"]}
    sweep |= {"label_column": "label", "lambdas": [1]}
    experiments = [client.post("/api/experiments", json=sweep).json()]
    trial_ids = [
        client.post(f"/api/embeddings/{embedding_id}/postprocessings", json={"method": "centring"}).json()["id"]
        for embedding_id in embeddings[:2]
    ]
    task_ids = [
        client.post(f"/api/embeddings/{row}/tasks", data={"kind": "compression"}).json()["id"] for row in uploaded[:2]
    ]
    texts = [client.post("/api/encodings", files={"file": ("t.tsv", ROWS)}).json()["id"] for _ in range(6)]
    work()
    experiments += [client.post("/api/experiments", json=sweep).json() for _ in range(2)]  # their runs wait
    logged = client.post("/api/runs", json=SCRIPT_RUN).json()
    return {
        "embedding_id": embeddings, "encoding_id": texts, "postprocessing_id": trial_ids, "task_id": task_ids,
        "dataset_id": datasets,
        "experiment_id": [*(experiment["id"] for experiment in experiments), logged["experiment_id"]],
        "run_id": [*(run["id"] for experiment in experiments for run in experiment["runs"]), logged["id"]],
    }  # fmt: skip


def dictionaries(ids):
    for name, row_ids in ids.items():
        yield f"[dictionaries.{name}]\nvalues = {row_ids!r}\n"
    yield "[parameters]\n"
    bound = {f"path.{name}": name for name in ids}
    for parameter, name in (bound | {"body.dataset_id": "dataset_id", "body.source_id": "embedding_id"}).items():
        yield f'"{parameter}" = {{ dictionary = "{name}", probability = 0.8 }}\n'


def test_api_records_have_unique_names(settings):
    """FastAPI names duplicates by their module paths, and so do generated clients."""
    names = create_app(settings).openapi()["components"]["schemas"]
    assert [name for name in names if name.startswith(("app__", "isoscope__", "isotropy__"))] == []


# PostgreSQL is stricter: it refuses characters, numbers and casts that SQLite accepts.
@pytest.mark.parametrize("database", ["postgresql" if is_available() else "sqlite"], indirect=True)
# Coverage tries each limit of the schema: 7,000 requests.
@pytest.mark.long
@pytest.mark.parametrize("phases", ["fuzzing,stateful", "coverage"])
@pytest.mark.sandbox
def test_answers_match_openapi_document(settings, ids, tmp_path, phases):
    config = tmp_path / "schemathesis.toml"
    config.write_text("".join(dictionaries(ids)) + ANY_FILE, encoding="utf-8")
    with web_process(settings) as address:
        httpx2.get(f"{address}/api/openapi.json", timeout=60)  # made once; schemathesis waits for 10 seconds
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)),
            *("run", f"{address}/api/openapi.json", "--exclude-checks", EXCLUDED_CHECKS),
            *("--phases", phases, "--max-examples", str(EXAMPLES)),
            *("--seed", "1", "--generation-database", "none"),
        ]
        process = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout[-8000:] + process.stderr[-2000:]
