"""Embeddings from upload to report over HTTP, with the real jobs."""

import io
import json
from concurrent.futures import ThreadPoolExecutor

import h5py
import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient
from IsoScore import IsoScore

from app.core.settings import Settings
from app.db.models import Measurement, MeasurementStatus
from app.embeddings.api.measures import MeasureOut
from app.main import create_app
from isotropy.catalog import MEASURES
from tests.once import make_once
from tests.uploads.good import npy


def upload(client, content: bytes, name: str = "cloud.npy", query: str = ""):
    return client.post(f"/api/embeddings{query}", files={"file": (name, content)})


@pytest.fixture
def ready(client, context, work, cloud, trained_once):
    """A measured embedding."""

    def measure():
        answer = upload(client, npy(cloud), query="?commit=auto")
        work()
        return answer.json()["id"]

    return client.get(f"/api/embeddings/{make_once(context, trained_once, 'ready', measure)}").json()


def test_an_upload_is_inspected_shown_as_a_draft_and_measured_when_committed(client, work, cloud):
    created = upload(client, npy(cloud))
    assert created.status_code == 201
    path = f"/api/embeddings/{created.json()['id']}"
    assert (created.json()["status"], created.json()["n"], created.json()["d"]) == ("inspecting", None, None)
    work()
    draft = client.get(path).json()
    assert (draft["status"], draft["n"], draft["d"]) == ("draft", 400, 8)
    assert draft["inspection"]["dtype"] == "float64"
    assert draft["measurements"] == []
    assert client.post(f"{path}/commit").json()["status"] == "measuring"
    work()
    assert client.get(path).json()["status"] == "ready"


def test_committed_at_once_it_is_measured_without_another_request(ready, cloud):
    assert ready["status"] == "ready"
    measured = {row["measure"]: row for row in ready["measurements"]}
    # The package takes one square root in float32; tests/oracle compares without it.
    assert measured["isoscore"]["value"] == pytest.approx(float(IsoScore.IsoScore(cloud)), rel=1e-5)
    assert measured["isoscore"]["status"] == "ok"
    assert len(measured["anisotropy_raw"]["detail"]["values"]) == 8
    eigenvalues = np.linalg.eigvalsh(np.cov(cloud.T))[::-1]
    assert measured["spectrum"]["detail"]["eigenvalues"] == pytest.approx(list(eigenvalues))
    assert measured["activation_profile"]["detail"]["std"] == pytest.approx(list(cloud.std(0, ddof=1)), rel=1e-6)


def test_the_zeta_curve_starts_at_isoscore_and_ends_at_one_for_the_identity(client, ready):
    curve = client.get(f"/api/embeddings/{ready['id']}/curves/zeta?source=identity&rows=400").json()
    assert (len(curve["zetas"]), len(curve["lines"])) == (101, 1)
    values = curve["lines"][0]["values"]
    isoscore = next(row["value"] for row in ready["measurements"] if row["measure"] == "isoscore")
    assert values[0] == pytest.approx(isoscore)
    assert values[100] == pytest.approx(1)
    assert values == sorted(values)


@pytest.mark.both_databases
def test_a_curve_towards_another_upload_is_computed_on_request(client, work, ready):
    source_id = upload(client, npy(np.random.default_rng(1).normal(size=(300, 8))), query="?commit=auto").json()
    work()
    path = f"/api/embeddings/{ready['id']}/curves/zeta"
    assert client.get(f"{path}?source=embedding&source_id={source_id['id']}").status_code == 404
    assert client.post(path, json={"source_id": source_id["id"]}).json()["status"] == "queued"
    work()
    curve = client.get(f"{path}?source=embedding&source_id={source_id['id']}&rows=400").json()
    assert curve["status"] == "ready"
    measured = client.get(f"/api/embeddings/{source_id['id']}").json()["measurements"]
    source_isoscore = next(row["value"] for row in measured if row["measure"] == "isoscore")
    assert curve["lines"][0]["values"][100] == pytest.approx(source_isoscore)


def test_a_curve_towards_another_dimension_is_refused(client, work, ready):
    source_id = upload(client, npy(np.ones((30, 5)) * np.arange(30)[:, None]), query="?commit=auto").json()
    work()
    answer = client.post(f"/api/embeddings/{ready['id']}/curves/zeta", json={"source_id": source_id["id"]})
    assert answer.status_code == 422
    assert "Expected an embedding of 8 dimensions" in answer.json()["detail"]


def test_identical_bytes_are_stored_once_and_go_with_the_last_embedding(client, context, work, cloud):
    first, second = (upload(client, npy(cloud)).json()["id"] for _ in range(2))
    files = context.settings.root / "files"
    assert len([path for path in files.rglob("*") if path.is_file()]) == 1
    assert client.delete(f"/api/embeddings/{first}").status_code == 204
    assert client.delete("/api/trash").json()["freed_bytes"] == 0
    assert len([path for path in files.rglob("*") if path.is_file()]) == 1
    assert client.delete(f"/api/embeddings/{second}").status_code == 204
    assert len([path for path in files.rglob("*") if path.is_file()]) == 1
    assert client.delete("/api/trash").json()["freed_bytes"] == len(npy(cloud))
    assert [path for path in files.rglob("*") if path.is_file()] == []
    assert client.get(f"/api/embeddings/{second}").status_code == 404
    assert work() == 0


@pytest.mark.both_databases
def test_identical_bytes_uploaded_at_the_same_moment_are_all_kept(client, context, cloud):
    content = npy(cloud)
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: upload(client, content).status_code, range(12)))
    assert answers == [201] * 12
    assert len([path for path in (context.settings.root / "files").rglob("*") if path.is_file()]) == 1


def test_nan_rows_are_left_out_and_counted_and_no_nan_reaches_the_answer(client, work, cloud):
    cloud[3, 2], cloud[7, 0] = np.nan, np.inf
    created = upload(client, npy(cloud), query="?commit=auto").json()
    work()
    answer = client.get(f"/api/embeddings/{created['id']}")
    json.loads(answer.text, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert answer.json()["n_left_out"] == 2
    assert {row["n"] for row in answer.json()["measurements"]} == {398, 0}  # 0: no labels


@pytest.mark.both_databases
def test_what_is_undefined_is_null_with_its_reason(client, work):
    created = upload(client, npy(np.ones((10, 4))), query="?commit=auto").json()
    work()
    answer = client.get(f"/api/embeddings/{created['id']}").json()
    isoscore = next(row for row in answer["measurements"] if row["measure"] == "isoscore")
    assert (isoscore["status"], isoscore["value"]) == ("undefined", None)
    assert "all points are equal" in isoscore["reason"]


def test_another_choice_of_vectors_is_inspected_again(client, work, cloud):
    file = io.BytesIO()
    np.savez(file, wide=cloud, narrow=cloud[:, :3])
    created = upload(client, file.getvalue(), "two.npz").json()
    work()
    path = f"/api/embeddings/{created['id']}"
    chosen = client.put(f"{path}/selection", json={"vectors": "narrow"})
    assert chosen.json()["status"] == "inspecting"
    work()
    assert client.get(path).json()["d"] == 3
    swapped = client.put(f"{path}/selection", json={"vectors": "narrow", "transpose": True})
    assert swapped.status_code == 200
    work()
    assert (client.get(path).json()["n"], client.get(path).json()["d"]) == (3, 400)
    wrong = client.put(f"{path}/selection", json={"vectors": "none"})
    assert wrong.status_code == 422
    assert "wide" in wrong.json()["detail"]


@pytest.mark.parametrize(
    ("content", "name", "status", "sentence"),
    [
        (b"", "empty.npy", 422, "empty"),
        (b"\x80\x04\x95abc", "model.pkl", 415, "pickle"),
        (b"PK\x03\x04" + b"\0" * 40, "model.pt", 415, "safetensors"),
        (b"not an array", "fake.npy", 422, "npy"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_and_nothing_is_kept(client, context, content, name, status, sentence):
    answer = upload(client, content, name)
    assert answer.status_code in {status, 415, 422}
    assert sentence in answer.json()["detail"]
    assert client.get("/api/embeddings").json() == []
    assert [path for path in (context.settings.root / "files").rglob("*") if path.is_file()] == []


def test_a_file_that_turns_out_ragged_fails_with_the_line_and_the_next_upload_works(client, work, cloud):
    created = upload(client, b"1,2,3\n4,5,6\n7,8\n", "ragged.csv").json()
    work()
    failed = client.get(f"/api/embeddings/{created['id']}").json()
    assert failed["status"] == "failed"
    assert "Line 3" in failed["error"]
    fine = upload(client, npy(cloud), query="?commit=auto").json()
    work()
    assert client.get(f"/api/embeddings/{fine['id']}").json()["status"] == "ready"


def in_format(filename: str, cloud: np.ndarray) -> bytes:
    """The cloud in a format, with a word for each row."""
    words = [f"w{i}" for i in range(len(cloud))]
    file = io.BytesIO()
    match filename:
        case "lists.parquet":
            pq.write_table(pa.table({"vector": list(cloud), "word": words}), file)
        case "wide.parquet":
            pq.write_table(pa.table({f"x{i}": cloud[:, i] for i in range(8)} | {"word": words}), file)
        case "x.jsonl":
            rows = zip(words, cloud.tolist(), strict=True)
            return "".join(json.dumps({"word": word, "vector": row}) + "\n" for word, row in rows).encode()
        case "x.h5":
            with h5py.File(file, "w") as tree:
                tree["vectors"], tree["word"] = cloud, words
        case "glove.txt" | "x.vec":
            rows = zip(words, cloud.tolist(), strict=True)
            text = "".join(f"{word} {' '.join(map(repr, row))}\n" for word, row in rows)
            return (text if filename == "glove.txt" else f"400 8\n{text}").encode()
        case "x.bin":
            rows = (f"w{i} ".encode() + row.astype("<f4").tobytes() for i, row in enumerate(cloud))
            return b"400 8\n" + b"".join(rows)
    return file.getvalue()


@pytest.mark.parametrize(
    ("filename", "kind"),
    [
        ("lists.parquet", "parquet"),
        ("wide.parquet", "parquet"),
        ("x.jsonl", "jsonl"),
        ("x.h5", "hdf5"),
        ("glove.txt", "word2vec"),
        ("x.vec", "word2vec"),
        ("x.bin", "word2vec binary"),
    ],
)
def test_every_format_measures_the_same_cloud(client, work, cloud, filename, kind):
    created = upload(client, in_format(filename, cloud), filename, query="?commit=auto").json()
    work()
    answer = client.get(f"/api/embeddings/{created['id']}").json()
    assert (answer["status"], answer["error"], answer["format"], answer["n"], answer["d"]) == (
        "ready",
        None,
        kind,
        400,
        8,
    )
    assert answer["selection"]["names"] in ("word", "words")
    isoscore = next(row["value"] for row in answer["measurements"] if row["measure"] == "isoscore")
    assert isoscore == pytest.approx(float(IsoScore.IsoScore(cloud)), rel=1e-5)


def shards(cloud: np.ndarray) -> list[tuple[str, tuple[str, bytes]]]:
    """Three parts of the cloud, sent in another order than that of their numbers."""
    parts = {"part-10.npy": cloud[300:], "part-2.npy": cloud[100:300], "part-1.npy": cloud[:100]}
    return [("file", (name, npy(part))) for name, part in parts.items()]


def test_several_files_are_one_embedding_in_the_natural_order_of_their_names(client, context, work, cloud):
    created = client.post("/api/embeddings?commit=auto", files=shards(cloud)).json()
    assert created["filename"] == "part-1.npy and 2 more"
    assert [file["filename"] for file in created["files"]] == ["part-1.npy", "part-2.npy", "part-10.npy"]
    work()
    answer = client.get(f"/api/embeddings/{created['id']}").json()
    assert (answer["n"], answer["inspection"]["preview"][0]["values"]) == (400, cloud[0].tolist())
    isoscore = next(row["value"] for row in answer["measurements"] if row["measure"] == "isoscore")
    assert isoscore == pytest.approx(float(IsoScore.IsoScore(cloud)), rel=1e-5)
    client.delete(f"/api/embeddings/{created['id']}")
    client.delete(f"/api/trash/{created['id']}")
    assert [path for path in (context.settings.root / "files").rglob("*") if path.is_file()] == []


def test_files_of_two_formats_are_refused_and_nothing_is_kept(client, context, cloud):
    files = [*shards(cloud), ("file", ("words.csv", b"x,y\n1.5,2\n"))]
    answer = client.post("/api/embeddings", files=files)
    assert answer.status_code == 422
    assert "words.csv is a csv file, but part-1.npy is npy" in answer.json()["detail"]
    assert [path for path in (context.settings.root / "files").rglob("*") if path.is_file()] == []


def test_files_that_do_not_fit_together_fail_with_the_name_of_the_file(client, work, cloud):
    files = [("file", ("a.npy", npy(cloud))), ("file", ("b.npy", npy(cloud[:, :5])))]
    created = client.post("/api/embeddings", files=files).json()
    work()
    failed = client.get(f"/api/embeddings/{created['id']}").json()
    assert failed["status"] == "failed"
    assert failed["error"].startswith("b.npy holds 'array' of 5 dimensions")


def test_the_limit_holds_for_all_files_together(context, cloud):
    content = npy(cloud)
    settings = Settings(**context.settings.model_dump() | {"max_upload_bytes": 2 * len(content) - 1})
    with TestClient(create_app(settings), base_url="http://localhost") as client:
        files = [("file", ("a.npy", content)), ("file", ("b.npy", npy(cloud + 1)))]
        answer = client.post("/api/embeddings", files=files)
    assert (answer.status_code, answer.json()["field"]) == (413, "file")
    assert f"more than {2 * len(content) - 1:,} bytes together" in answer.json()["detail"]
    assert [path for path in (settings.root / "files").rglob("*") if path.is_file()] == []


def test_names_and_labels_of_a_second_file_are_offered_chosen_and_kept(client, work, cloud):
    lines = "".join(f"w{i},{'ab'[i % 2]},{i % 3}\n" for i in range(400))
    files = [*shards(cloud), ("annotations", ("labels.csv", f"word,label,group\n{lines}".encode()))]
    created = client.post("/api/embeddings", files=files).json()
    assert created["files"][-1]["role"] == "annotations"
    work()
    path = f"/api/embeddings/{created['id']}"
    draft = client.get(path).json()
    assert draft["selection"] == {
        "vectors": "array",
        "names": "word",
        "labels": "label",
        "groups": None,
        "transpose": False,
        "quoting": None,
        "similarity": None,
        "without_rows": [],
        "without_dimensions": [],
    }
    chosen = client.put(f"{path}/selection", json={"vectors": "array", "names": "word", "labels": "group"})
    assert chosen.status_code == 200
    work()
    draft = client.get(path).json()
    assert draft["inspection"]["preview"][1]["name"] == "w1"
    assert [row["label"] for row in draft["inspection"]["preview"]] == ["0", "1", "2", "0", "1"]
    client.post(f"{path}/commit")
    work()
    assert client.get(path).json()["status"] == "ready"


@pytest.mark.parametrize(
    ("filename", "content", "status", "sentence"),
    [
        ("labels.pkl", b"\x80\x04\x95abc", 415, "labels.pkl: This is a Python pickle"),
        ("labels.csv", b"", 422, "empty"),
    ],
)
def test_a_second_file_that_cannot_be_read_is_refused_at_its_field(
    client, context, cloud, filename, content, status, sentence
):
    files = [("file", ("x.npy", npy(cloud))), ("annotations", (filename, content))]
    answer = client.post("/api/embeddings", files=files)
    assert answer.status_code == status
    assert sentence in answer.json()["detail"]
    assert [path for path in (context.settings.root / "files").rglob("*") if path.is_file()] == []


def test_a_second_file_of_another_length_fails_with_both_numbers(client, work, cloud):
    files = [("file", ("x.npy", npy(cloud))), ("annotations", ("labels.txt", b"a\nb\n"))]
    created = client.post("/api/embeddings", files=files).json()
    work()
    failed = client.get(f"/api/embeddings/{created['id']}").json()
    assert failed["error"].startswith("labels.txt: expected a row for each vector, 400, got 2.")


def test_a_draft_is_committed_once(client, work, ready):
    answer = client.post(f"/api/embeddings/{ready['id']}/commit")
    assert answer.status_code == 409
    assert "Only a draft can be measured; this embedding is ready" in answer.json()["detail"]


def test_a_file_without_a_name_is_refused(client, cloud):
    assert client.post("/api/embeddings", files={"file": ("..", npy(cloud))}).status_code in {415, 422}


def test_a_name_never_becomes_a_path(client, context, work, cloud):
    created = upload(client, npy(cloud), "../../../etc/cloud.npy").json()
    assert created["filename"] == "cloud.npy"
    assert not (context.settings.root.parent / "etc").exists()


def test_a_standard_error_is_told_where_there_is_one(ready):
    measured = {row["measure"]: row for row in ready["measurements"]}
    assert measured["isoscore_unbiased"]["low"] < measured["isoscore_unbiased"]["value"]
    assert measured["stable_rank"]["se"] > 0
    assert (measured["isoscore"]["se"], measured["stable_rank"]["low"]) == (None, None)


def test_what_another_version_measured_is_answered_as_the_description_allows(client, context, ready):
    former = Measurement(embedding_id=ready["id"], measure="former", status=MeasurementStatus.OK, value=0.5, n=400)
    with context.sessions.begin() as session:
        session.add(former)
    answer = client.get(f"/api/embeddings/{ready['id']}").json()
    assert "former" in {row["measure"] for row in answer["measurements"]}
    description = client.get("/api/openapi.json").json()
    jsonschema.validate(answer, {"$ref": "#/components/schemas/EmbeddingOut", "components": description["components"]})
    slug_enum, any_slug = description["components"]["schemas"]["MeasurementOut"]["properties"]["measure"]["anyOf"]
    assert (slug_enum["enum"], any_slug) == (list(MEASURES), {"type": "string"})


def test_the_catalogue_is_answered_in_its_order(client):
    answer = client.get("/api/measures").json()
    assert [measure["slug"] for measure in answer] == list(MEASURES)
    measures = [MeasureOut.model_validate(measure) for measure in MEASURES.values()]
    assert answer == [measure.model_dump(mode="json", by_alias=True) for measure in measures]
