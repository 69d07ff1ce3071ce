import jsonschema
import numpy as np
import pyarrow as pa
import pytest
import safetensors.numpy
from fastapi.testclient import TestClient
from IsoScore import IsoScore

from app.core.settings import Settings
from app.db.models import Embedding, Measurement, MeasurementStatus
from app.embeddings.api.measures import MeasureOut
from app.main import create_app
from isotropy.catalog import MEASURES
from tests.cached_rows import make_once
from tests.uploads.good import hdf5, jsonl, npy, parquet, word2vec, word2vec_binary

X_FILE = ("file", ("x.npy", npy(np.eye(3, 8))))


def upload(client, content: bytes, name: str = "cloud.npy", query: str = ""):
    return client.post(f"/api/embeddings{query}", files={"file": (name, content)})


@pytest.fixture
def ready(client, context, work, cloud, module_cache):
    def measure():
        answer = upload(client, npy(cloud), query="?commit=auto")
        work()
        return answer.json()["id"]

    return client.get(f"/api/embeddings/{make_once(context, module_cache, 'ready', measure)}").json()


def find_value(answer, measure="isoscore"):
    return next(row["value"] for row in answer["measurements"] if row["measure"] == measure)


def stored_files(context):
    return [path for path in context.settings.files.rglob("*") if path.is_file()]


def failed(client, work, *files):
    created = client.post("/api/embeddings", files=list(files)).json()
    work()
    answer = client.get(f"/api/embeddings/{created['id']}").json()
    assert answer["status"] == "failed"
    return answer["error"]


def test_auto_committed_upload_is_measured(client, ready, cloud):
    assert ready["status"] == "ready"
    measured = {row["measure"]: row for row in ready["measurements"]}
    # The package takes one square root in float32; tests/oracle compares without it.
    assert measured["isoscore"]["value"] == pytest.approx(float(IsoScore.IsoScore(cloud)), rel=1e-5)
    assert measured["isoscore"]["status"] == "ok"
    assert len(measured["anisotropy_raw"]["detail"]["values"]) == 8
    assert measured["isoscore_unbiased"]["low"] < measured["isoscore_unbiased"]["value"]
    assert measured["stable_rank"]["se"] > 0
    assert (measured["isoscore"]["se"], measured["stable_rank"]["low"]) == (None, None)
    answer = client.post(f"/api/embeddings/{ready['id']}/commit")
    assert answer.status_code == 409
    assert "Only a draft can be measured; this embedding is ready" in answer.json()["detail"]
    curve = client.get(f"/api/embeddings/{ready['id']}/curves/zeta?source=identity&rows=400").json()
    assert (len(curve["zetas"]), len(curve["lines"])) == (101, 1)
    values = curve["lines"][0]["values"]
    assert values[0] == pytest.approx(find_value(ready))
    assert values[100] == pytest.approx(1)
    assert values == sorted(values)


def test_curve_towards_embedding_is_computed_on_request(client, work, ready):
    clouds = (np.random.default_rng(1).normal(size=(300, 8)), np.ones((30, 5)) * np.arange(30)[:, None])
    source, narrow = (upload(client, npy(x), query="?commit=auto").json()["id"] for x in clouds)
    work()
    path = f"/api/embeddings/{ready['id']}/curves/zeta"
    assert client.get(f"{path}?source=embedding&source_id={source}").status_code == 404
    page = f"/embeddings/{ready['id']}"
    assert "Compute the curve" in client.get(f"{page}?source={source}").text
    requested = client.post(f"{page}/curves", data={"source_id": source})
    assert requested.status_code == 303
    assert client.post(path, json={"source_id": source}).json()["status"] == "queued"
    assert "The curve against this covariance appears here" in client.get(requested.headers["location"]).text
    work()
    assert 'id="figure-zeta"' in client.get(requested.headers["location"]).text
    curve = client.get(f"{path}?source=embedding&source_id={source}&rows=400").json()
    assert curve["status"] == "ready"
    measured = client.get(f"/api/embeddings/{source}").json()
    assert curve["lines"][0]["values"][100] == pytest.approx(find_value(measured))
    answer = client.post(path, json={"source_id": narrow})
    assert answer.status_code == 422
    assert "has 8 dimensions and " in answer.json()["detail"]


def test_unreadable_files_are_rejected_and_not_stored(client, context):
    unreadable = [
        ([("file", ("empty.npy", b""))], 422, "empty"),
        ([("file", ("model.pkl", b"\x80\x04\x95abc"))], 415, "pickle"),
        ([("file", ("model.pt", b"PK\x03\x04" + b"\0" * 40))], 415, "safetensors"),
        ([("file", ("fake.npy", b"not an array"))], 422, "npy"),
        ([X_FILE, ("annotations", ("labels.pkl", b"\x80\x04\x95abc"))], 415, "labels.pkl: This is a Python pickle"),
        ([X_FILE, ("annotations", ("labels.csv", b""))], 422, "empty"),
        ([X_FILE, ("file", ("w.csv", b"x,y\n1.5,2\n"))], 422, "x.npy is a npy file, but w.csv is csv"),
    ]
    for files, status, sentence in unreadable:
        answer = client.post("/api/embeddings", files=files)
        assert (answer.status_code, sentence in answer.json()["detail"]) == (status, True), sentence
    assert client.get("/api/embeddings").json() == []
    assert stored_files(context) == []


def test_malformed_files_fail_with_file_name_or_line(client, context, work, cloud):
    assert "Line 3" in failed(client, work, ("file", ("ragged.csv", b"1,2,3\n4,5,6\n7,8\n")))
    narrow = failed(client, work, X_FILE, ("file", ("y.npy", npy(cloud[:, :5]))))
    assert narrow.startswith("y.npy holds 'array' of 5 dimensions")
    short = failed(client, work, X_FILE, ("annotations", ("labels.txt", b"a\nb\n")))
    assert short.startswith("labels.txt: expected a row for each vector, 3, got 2.")
    assert client.post("/api/embeddings", files={"file": ("..", npy(cloud))}).status_code in {415, 422}
    fine = upload(client, npy(cloud), "../../../etc/cloud.npy", "?commit=auto").json()
    assert (fine["filename"], (context.settings.root.parent / "etc").exists()) == ("cloud.npy", False)
    work()
    assert client.get(f"/api/embeddings/{fine['id']}").json()["status"] == "ready"


@pytest.mark.sandbox
def test_formats_measure_same_cloud(client, work, cloud):
    words, text = [f"w{i}" for i in range(len(cloud))], word2vec("", cloud)
    columns = {f"x{i}": cloud[:, i] for i in range(8)}
    formats = {
        "lists.parquet": ("parquet", parquet(pa.table({"vector": list(cloud), "word": words}))),
        "wide.parquet": ("parquet", parquet(pa.table(columns | {"word": words}))),
        "x.jsonl": ("jsonl", jsonl(cloud)),
        "x.h5": ("hdf5", hdf5(vectors=cloud, word=words)),
        "glove.txt": ("word2vec", text),
        "x.vec": ("word2vec", b"400 8\n" + text),
        "x.bin": ("word2vec binary", word2vec_binary("400 8\n", cloud)),
    }
    kinds = {}
    for name, (kind, content) in formats.items():
        kinds[upload(client, content, name, query="?commit=auto").json()["id"]] = kind
    work()
    for embedding_id, kind in kinds.items():
        answer = client.get(f"/api/embeddings/{embedding_id}").json()
        assert (answer["status"], answer["error"], answer["format"]) == ("ready", None, kind)
        assert (answer["n"], answer["d"]) == (400, 8)
        assert answer["selection"]["names"] in ("word", "words")
        assert find_value(answer) == pytest.approx(float(IsoScore.IsoScore(cloud)), rel=1e-5)


def test_upload_limit_applies_to_total_size(context, cloud):
    content = npy(cloud)
    settings = Settings(**context.settings.model_dump() | {"max_upload_bytes": 2 * len(content) - 1})
    with TestClient(create_app(settings), base_url="http://localhost") as client:
        files = [("file", ("a.npy", content)), ("file", ("b.npy", npy(cloud + 1)))]
        answer = client.post("/api/embeddings", files=files)
    assert (answer.status_code, answer.json()["field"]) == (413, "file")
    assert f"more than {2 * len(content) - 1:,} bytes together" in answer.json()["detail"]
    assert stored_files(context) == []


def test_shards_and_annotations_form_one_embedding(client, context, work, cloud):
    lines = "".join(f"w{i},{'ab'[i % 2]},{i % 3}\n" for i in range(400))
    parts = {"part-10.npy": cloud[300:], "part-2.npy": cloud[100:300], "part-1.npy": cloud[:100]}
    shards = [("file", (name, npy(part))) for name, part in parts.items()]
    files = [*shards, ("annotations", ("labels.csv", f"word,label,group\n{lines}".encode()))]
    created = client.post("/api/embeddings", files=files).json()
    assert created["filename"] == "part-1.npy and 2 more"
    in_order = ["part-1.npy", "part-2.npy", "part-10.npy", "labels.csv"]
    assert [file["filename"] for file in created["files"]] == in_order, "the natural order of their names"
    assert created["files"][-1]["role"] == "annotations"
    work()
    path = f"/api/embeddings/{created['id']}"
    draft = client.get(path).json()
    assert (draft["n"], draft["inspection"]["preview"][0]["values"]) == (400, cloud[0].tolist())
    assert "Names and labels come from labels.csv" in client.get(path.removeprefix("/api")).text
    chosen = {name: value for name, value in draft["selection"].items() if value}
    assert chosen == {"vectors": "array", "names": "word", "labels": "label", "similarity": "cosine"}
    chosen = client.put(f"{path}/selection", json={"vectors": "array", "names": "word", "labels": "group"})
    assert chosen.status_code == 200
    work()
    draft = client.get(path).json()
    assert draft["inspection"]["preview"][1]["name"] == "w1"
    assert [row["label"] for row in draft["inspection"]["preview"]] == ["0", "1", "2", "0", "1"]
    client.post(f"{path}/commit")
    work()
    answer = client.get(path).json()
    assert answer["status"] == "ready"
    assert find_value(answer) == pytest.approx(float(IsoScore.IsoScore(cloud)), rel=1e-5)
    client.delete(path)
    client.delete(f"/api/trash/{created['id']}")
    assert stored_files(context) == []


def test_measure_of_other_version_matches_api_schema(client, context, ready):
    removed = Measurement(embedding_id=ready["id"], measure="removed", status=MeasurementStatus.OK, value=0.5, n=400)
    with context.sessions.begin() as session:
        session.add(removed)
    answer = client.get(f"/api/embeddings/{ready['id']}").json()
    assert "removed" in {row["measure"] for row in answer["measurements"]}
    description = client.get("/api/openapi.json").json()
    jsonschema.validate(answer, {"$ref": "#/components/schemas/EmbeddingOut", "components": description["components"]})
    slug_enum, any_slug = description["components"]["schemas"]["MeasurementOut"]["properties"]["measure"]["anyOf"]
    assert (slug_enum["enum"], any_slug) == (list(MEASURES), {"type": "string"})
    answer = client.get("/api/measures").json()
    assert [measure["slug"] for measure in answer] == list(MEASURES)
    measures = [MeasureOut.model_validate(measure) for measure in MEASURES.values()]
    assert answer == [measure.model_dump(mode="json", by_alias=True) for measure in measures]


@pytest.mark.parametrize(("name", "stack"), [("states.npy", "array"), ("states.safetensors", "states")])
def test_layer_is_selected_from_3d_array(client, context, work, name, stack):
    x = np.random.default_rng(0).normal(size=(3, 50, 8)).astype(np.float32)
    content = npy(x) if name.endswith(".npy") else safetensors.numpy.save({"states": x})
    draft = client.post("/api/embeddings", files={"file": (name, content)}).json()["id"]
    work()
    assert f"{stack}[1]" in client.get(f"/embeddings/{draft}").text
    for layer in (2, 1):
        inspection = client.get(f"/api/embeddings/{draft}").json()["inspection"]
        assert [part["name"] for part in inspection["parts"]] == [f"{stack}[{i}]" for i in range(3)]
        np.testing.assert_allclose(inspection["preview"][0]["values"], x[layer, 0])
        with context.sessions() as session:
            assert session.get_one(Embedding, draft).layer == layer
        client.put(f"/api/embeddings/{draft}/selection", json={"vectors": f"{stack}[1]"})
        work()
