"""The map of an embedding: its bytes, what it tells of them, and selections made on it."""

import io

import numpy as np
import pytest
from sqlalchemy import delete

from app.db.models import FigureData, FigureFile
from app.db.point_map import MAP
from app.embeddings.selections import read_rows
from isoscope.core.errors import InvalidError

N, D = 300, 6
STRETCH = np.array([9.0, 4.0, 1.0, 1.0, 1.0, 1.0])


def cloud():
    return np.random.default_rng(3).normal(size=(N, D)) * STRETCH


@pytest.fixture
def source(client, work):
    file = io.BytesIO()
    np.save(file, cloud())
    answer = client.post("/api/embeddings?commit=auto", files={"file": ("cloud.npy", file.getvalue())})
    work()
    return answer.json()["id"]


def shown(client, embedding_id):
    return client.get(f"/embeddings/{embedding_id}/map/map.json")


def selected(client, source, **data):
    return client.post(f"/embeddings/{source}/map/selection", data=data)


@pytest.mark.both_databases
def test_bytes_are_coordinates_then_norms_in_the_order_of_the_file(client, source):
    document = shown(client, source).json()
    answer = client.get(document["points"])
    assert answer.headers["content-type"] == "application/octet-stream"
    assert "immutable" in answer.headers["cache-control"]
    header = document["header"]
    assert (header["n"], header["points"], set(header["sections"])) == (N, N, {"xy", "norm"})
    assert header["sections"]["xy"] == {"type": "float32", "offset": 0, "count": 2 * N}
    assert header["sections"]["norm"]["offset"] == 4 * N * 2
    assert len(answer.content) == 4 * N * 3
    numbers = np.frombuffer(answer.content, "<f4")
    x = cloud()
    centered = x - x.mean(axis=0)
    axes = np.linalg.svd(centered, full_matrices=False)[2][:2]
    axes *= np.sign(axes[np.arange(2), np.abs(axes).argmax(axis=1)])[:, None]
    assert numbers[: 2 * N].reshape(N, 2) == pytest.approx(centered @ axes.T, abs=1e-3)
    assert numbers[2 * N :] == pytest.approx(np.linalg.norm(x, axis=1), rel=1e-5)
    assert document["names"] is None


def test_labels_and_names_are_those_of_the_rows(client, work):
    lines = [f"word {i},{'ab'[i % 3 == 0]},{i % 7},{i % 5},{i % 11}" for i in range(60)]
    file = "\n".join(["name,label,x,y,z", *lines])
    made = client.post("/api/embeddings?commit=auto", files={"file": ("named.csv", file)}).json()["id"]
    work()
    document = shown(client, made).json()
    section = document["header"]["sections"]["label"]
    codes = np.frombuffer(client.get(document["points"]).content, "<u2", section["count"], section["offset"])
    names = document["header"]["labels"]["names"]
    assert [names[code] for code in codes] == ["ab"[i % 3 == 0] for i in range(60)]
    assert [(one["name"], one["count"]) for one in document["groups"]] == [("a", 40), ("b", 20)]
    assert client.get(document["names"]).text.split("\n") == [f"word {i}" for i in range(60)]


def test_what_is_unknown_is_not_found(client, source):
    assert shown(client, "0" * 32).status_code == 404
    answer = client.get(f"/embeddings/{source}/map/{'0' * 64}/points.bin")
    assert answer.status_code == 404
    assert "no such file" in answer.text


def test_an_embedding_of_an_earlier_version_keeps_the_old_figure(client, context, source):
    page = client.get(f"/embeddings/{source}?tab=map").text
    assert "data-map=" in page
    assert "earlier version" not in page
    with context.sessions.begin() as session:
        session.execute(delete(FigureFile).where(FigureFile.embedding_id == source))
        session.execute(delete(FigureData).where(FigureData.embedding_id == source, FigureData.slug == MAP))
    assert shown(client, source).status_code == 404
    page = client.get(f"/embeddings/{source}?tab=map").text
    assert "data-map=" not in page
    assert "figures/projection.html" in page
    assert "An earlier version measured this embedding." in page


def test_points_that_are_gone_are_told_of(client, context, source):
    with context.sessions.begin() as session:
        session.execute(delete(FigureFile).where(FigureFile.embedding_id == source))
    answer = shown(client, source)
    assert answer.status_code == 404
    assert "points of this map are gone" in answer.text


def test_the_file_goes_with_the_embedding(client, context, source):
    sha256 = shown(client, source).json()["points"].split("/")[-2]
    assert context.storage.exists(sha256)
    client.delete(f"/api/embeddings/{source}")
    assert client.get("/api/trash").json()["frees_bytes"] >= 4 * N * 3
    client.delete(f"/api/trash/{source}")
    assert not context.storage.exists(sha256)


@pytest.mark.parametrize(("measure", "n", "name"), [("selected", 111, "111 rows of"), ("rest", N - 111, "without 111")])
def test_a_selection_of_the_map_is_measured(client, work, source, measure, n, name):
    answer = selected(client, source, rows="0-99 120 130-139", measure=measure)
    work()
    made = client.get("/api" + answer.headers["location"]).json()
    assert (made["status"], made["n"], made["source_id"]) == ("ready", n, source)
    assert name in made["name"]
    section = shown(client, made["id"]).json()["header"]["sections"]["row"]
    assert (section["type"], section["count"]) == ("uint32", n)


@pytest.mark.parametrize(
    ("rows", "words"),
    [(" ", "No rows are selected"), ("3-x", "names no rows"), ("9-2", "names no rows"), ("0-1000000", "too many"),
     ("300", "has no row 300"), ("0-299", "all rows")],
)  # fmt: skip
def test_rows_that_cannot_be_measured_are_refused(client, source, rows, words):
    answer = client.post(f"/embeddings/{source}/map/selection", data={"rows": rows, "measure": "selected"})
    assert answer.status_code in (400, 422)
    assert words in answer.text


def test_runs_are_rows_ascending_each_once():
    assert read_rows("5 0-2 1-3") == [0, 1, 2, 3, 5]
    with pytest.raises(InvalidError) as raised:
        read_rows("a")
    assert raised.value.field == "rows"
