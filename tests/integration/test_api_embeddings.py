"""Embeddings from upload to report over HTTP, with the real jobs."""

import io
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from IsoScore import IsoScore


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def upload(client, content: bytes, name: str = "cloud.npy", query: str = ""):
    return client.post(f"/api/embeddings{query}", files={"file": (name, content)})


@pytest.fixture
def ready(client, work, cloud):
    """A measured embedding."""
    answer = upload(client, npy(cloud), query="?commit=auto")
    work()
    return client.get(f"/api/embeddings/{answer.json()['id']}").json()


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
    measured = {one["measure"]: one for one in ready["measurements"]}
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
    isoscore = next(one["value"] for one in ready["measurements"] if one["measure"] == "isoscore")
    assert values[0] == pytest.approx(isoscore)
    assert values[100] == pytest.approx(1)
    assert values == sorted(values)


def test_a_curve_towards_another_upload_is_computed_on_request(client, work, ready):
    other = upload(client, npy(np.random.default_rng(1).normal(size=(300, 8))), query="?commit=auto").json()
    work()
    path = f"/api/embeddings/{ready['id']}/curves/zeta"
    assert client.get(f"{path}?source=embedding&source_id={other['id']}").status_code == 404
    assert client.post(path, json={"source_id": other["id"]}).json()["status"] == "queued"
    work()
    curve = client.get(f"{path}?source=embedding&source_id={other['id']}&rows=400").json()
    assert curve["status"] == "ready"
    measured = client.get(f"/api/embeddings/{other['id']}").json()["measurements"]
    others = next(one["value"] for one in measured if one["measure"] == "isoscore")
    assert curve["lines"][0]["values"][100] == pytest.approx(others)


def test_a_curve_towards_another_dimension_is_refused(client, work, ready):
    other = upload(client, npy(np.ones((30, 5)) * np.arange(30)[:, None]), query="?commit=auto").json()
    work()
    answer = client.post(f"/api/embeddings/{ready['id']}/curves/zeta", json={"source_id": other["id"]})
    assert answer.status_code == 422
    assert "Expected an embedding of 8 dimensions" in answer.json()["detail"]


def test_identical_bytes_are_stored_once_and_go_with_the_last_embedding(client, context, work, cloud):
    first, second = (upload(client, npy(cloud)).json()["id"] for _ in range(2))
    files = context.settings.root / "files"
    assert len([path for path in files.rglob("*") if path.is_file()]) == 1
    assert client.delete(f"/api/embeddings/{first}").status_code == 204
    assert len([path for path in files.rglob("*") if path.is_file()]) == 1
    assert client.delete(f"/api/embeddings/{second}").status_code == 204
    assert [path for path in files.rglob("*") if path.is_file()] == []
    assert client.get(f"/api/embeddings/{second}").status_code == 404
    assert work() == 0


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
    assert {one["n"] for one in answer.json()["measurements"]} <= {398}


def test_what_is_undefined_is_null_with_its_reason(client, work):
    created = upload(client, npy(np.ones((10, 4))), query="?commit=auto").json()
    work()
    answer = client.get(f"/api/embeddings/{created['id']}").json()
    isoscore = next(one for one in answer["measurements"] if one["measure"] == "isoscore")
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
