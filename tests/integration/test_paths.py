"""No path of a request reaches the file system: the interpreter itself is asked what was opened."""

import sys
from urllib.parse import quote

import pytest

MARK = "marked-7f3a"
TRAVERSALS = (
    f"../../{MARK}", f"..\\..\\{MARK}", f"/etc/{MARK}", f"{MARK}/../../{MARK}", f"%2e%2e/{MARK}", f"{MARK}\0.npy",
)  # fmt: skip
ROWS = "sentence\tlabel\n" + "".join(f"text {i}\t{i % 2}\n" for i in range(8))
PATHS = [
    "/embeddings/{}", "/embeddings?q={}", "/compare?id={}", "/trash/{}/purge", "/embeddings/{}/figures/zeta.csv",
    "/embeddings/x/figures/{}.json", "/datasets/{}", "/runs/{}",
    "/experiments/{}", "/experiments/x/figures/{}.csv", "/runs/x/figures/{}.json", "/static/{}", "/static/vendor/{}",
    "/measures/{}", "/{}", "/api/embeddings/{}", "/api/datasets/{}", "/api/runs/{}", "/api/experiments/{}",
    "/api/embeddings/{}/curves/zeta", "/login?next={}", "/experiments/new?dataset_id={}&model={}",
]  # fmt: skip

OPENING = {"open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.mkdir"}

watched: list[list[str]] = []


def _audit(event, arguments):
    if watched and event in OPENING:
        watched[0].extend(str(argument) for argument in arguments[:2])


sys.addaudithook(_audit)  # cannot be taken back; it does nothing while nobody watches


@pytest.fixture
def touched():
    watched.append([])
    yield watched[0]
    watched.clear()


def test_no_path_of_a_request_is_opened_and_a_file_name_is_for_show_only(client, touched):
    for path in PATHS:
        for traversal in TRAVERSALS:
            answer = client.get(path.replace("{}", quote(traversal, safe="")))
            assert answer.status_code < 500
            assert "root:" not in answer.text
    assert [path for path in touched if MARK in path] == []
    for traversal in TRAVERSALS:
        answer = client.post("/api/embeddings", files={"file": (f"{traversal}.csv", b"a,b\n1,2\n3,4\n")})
        if answer.is_success:
            assert not {"/", "\\", "\0"} & set(answer.json()["filename"])
    assert touched  # the bytes themselves were written
    assert [path for path in touched if MARK in path] == []


def test_a_model_is_looked_up_among_the_offered_never_as_a_path(client, touched):
    for model in [f"../{MARK}", f"/{MARK}", f"{MARK}/../..", f"..\\{MARK}", "..", "."]:
        dataset = client.post("/api/datasets", files={"train": ("t.tsv", ROWS), "validation": ("v.tsv", ROWS)}).json()
        body = {"model": model, "dataset_id": dataset["id"], "text_columns": ["sentence"], "label_column": "label"}
        answer = client.post("/api/experiments", json=body)
        assert (answer.status_code, answer.json()["field"]) == (422, "model")
        assert [path for path in touched if MARK in path] == []
