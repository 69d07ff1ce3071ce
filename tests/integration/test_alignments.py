import html

import numpy as np
import pytest

from app.db.models import Alignment, Embedding, RowsBy
from app.embeddings.alignments import find_row_matching
from tests.factories import add_embedding
from tests.uploads.good import npy

NOISE = 0.5


def points(n=300, d=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def noisy(x):
    return x + NOISE * np.random.default_rng(1).normal(size=x.shape)


def test_change_of_model_is_judged_in_both_directions(client, work):
    x = points(n=1200, d=8)
    rotation = np.linalg.qr(points(8, 8, seed=1))[0]
    ids = upload(client, ("x.npy", npy(x)), ("x.npy", npy((x @ rotation)[:, :4])), ("x.npy", npy(x @ rotation)))
    work()
    client.post("/api/compare/alignments", json={"id": ids})
    client.post("/api/compare/alignments", json={"id": [ids[1], ids[0]]})
    work()
    narrower, rotated = client.get("/api/compare/alignments", params={"id": ids}).json()
    assert (rotated["upgrade"]["verdict"], rotated["upgrade"]["bridge"]) == ("bridge", "orthogonal Procrustes")
    assert rotated["upgrade"]["kept_old"]["value"] == 1
    assert "Re-embedding takes 1,200 texts." in rotated["upgrade"]["conclusion"]
    assert narrower["upgrade"]["verdict"] == "re-embed"
    (wider,) = client.get("/api/compare/alignments", params={"id": [ids[1], ids[0]]}).json()
    assert wider["upgrade"]["kept_old"] != narrower["upgrade"]["kept_old"]
    page = client.get(f"/compare?id={ids[0]}&id={ids[1]}&id={ids[2]}").text
    assert page.count("Re-embedding takes 1,200 texts.") == 2


def test_few_rows_have_no_verdict_about_models(client, work):
    ids = upload(client, ("x.npy", npy(points(60))), ("x.npy", npy(noisy(points(60)))))
    work()
    assert aligned(client, work, ids)[0]["upgrade"] is None
    assert "Change the model" not in client.get(f"/compare?id={ids[0]}&id={ids[1]}").text.partition("<details")[0]


@pytest.mark.parametrize("are_layers", [False, True])
def test_layers_of_one_model_are_no_change_of_model(client, context, work, are_layers):
    ids = upload(client, *[("x.npy", npy(points(300)))] * 2)
    work()
    with context.sessions.begin() as session:
        for layer, embedding_id in enumerate(ids if are_layers else ()):
            session.get_one(Embedding, embedding_id).layer = layer
    alignment, values = aligned(client, work, ids)
    assert values["cka"]["value"] == pytest.approx(1)
    assert (alignment["upgrade"] is None) == are_layers


def named_csv(x, order):
    lines = ["id," + ",".join(f"e{i}" for i in range(x.shape[1]))]
    lines += [f"row-{i}," + ",".join(f"{value:.9g}" for value in x[i]) for i in order]
    return "x.csv", "\n".join(lines).encode()


def upload(client, *files):
    return [client.post("/api/embeddings?commit=auto", files={"file": file}).json()["id"] for file in files]


def aligned(client, work, ids):
    response = client.post("/api/compare/alignments", json={"id": ids})
    assert (response.status_code, response.json()[0]["status"]) == (202, "queued")
    work()
    (alignment,) = client.get("/api/compare/alignments", params={"id": ids}).json()
    return alignment, {value["measure"]: value for value in alignment["values"]}


@pytest.mark.both_databases
def test_ordered_rows_are_compared_with_intervals(client, context, work):
    ids = upload(client, ("x.npy", npy(points())), ("x.npy", npy(noisy(points()))))
    work()
    address = f"/compare?id={ids[0]}&id={ids[1]}"
    assert "Compare row by row" in client.get(address).text
    before = client.get("/api/compare/alignments", params={"id": ids}).json()
    assert [(row["rows_by"], row["status"]) for row in before] == [("order", None)]
    answer = client.post(f"/compare/alignments?id={ids[0]}&id={ids[1]}")
    assert answer.headers["location"] == f"{address}#alignments"
    assert "0 of 1 pair compared" in client.get(address).text.replace("\u00a0", " ")
    alignment, values = aligned(client, work, ids)
    assert (alignment["shared"], alignment["rows"], alignment["status"]) == (300, 300, "ready")
    truth = 1 / (1 + NOISE**2)
    assert values["cka"]["low"] < truth < values["cka"]["high"]
    assert values["procrustes"]["low"] < 1 - truth < values["procrustes"]["high"]
    assert 0.05 < values["neighbor_overlap"]["value"] < 1
    # The reversed pair shares the row and its numbers.
    assert client.get("/api/compare/alignments", params={"id": ids[::-1]}).json()[0]["values"] == alignment["values"]
    assert alignment["upgrade"]["verdict"] == "re-embed"
    page = client.get(address).text
    assert alignment["upgrade"]["conclusion"] in html.unescape(page)
    assert "Linear CKA, debiased" in page
    assert "300 rows, paired in order" in page.replace("\u00a0", " ")
    chosen = client.get(f"/api/embeddings/{ids[1]}").json()["selection"]
    client.put(f"/api/embeddings/{ids[1]}/selection?commit=auto", json=chosen)
    with context.sessions() as session:
        assert session.query(Alignment).all() == [], "a new selection deletes the alignment"


def test_rows_are_paired_by_name_or_position(client, work):
    x = points()
    order = np.random.default_rng(2).permutation(300)
    ids = upload(client, named_csv(x, range(300)), named_csv(x, order[:200]))
    work()
    alignment, values = aligned(client, work, ids)
    assert (alignment["rows_by"], alignment["shared"]) == ("name", 200)
    assert values["cka"]["value"] == pytest.approx(1, abs=1e-6)
    assert values["neighbor_overlap"]["value"] == pytest.approx(1, abs=1e-3)
    (source,) = upload(client, ("x.npy", npy(points())))
    work()
    subset = client.post(f"/api/embeddings/{source}/selections", json={"rows": [0, 7], "dimensions": [5]}).json()["id"]
    work()
    alignment, values = aligned(client, work, [source, subset])
    assert (alignment["rows_by"], alignment["shared"]) == ("place", 298)
    assert 0.8 < values["cka"]["value"] < 1


def add_selected(context, n, content=b"x", **selection):
    with context.sessions() as session:
        full_selection = {"vectors": "x", "names": None, "labels": None, "transpose": False} | selection
        return session.get(Embedding, add_embedding(context, n=n, contents=[content], selection=full_selection))


def test_row_matching_requires_equal_row_counts(client, context):
    train = add_selected(context, 400, vectors="train")
    assert find_row_matching(train, add_selected(context, 200, vectors="test")) is None
    assert find_row_matching(train, add_selected(context, 399, vectors="other", without_rows=[5])) is RowsBy.POSITION
    assert find_row_matching(train, add_selected(context, 399, b"another file", without_rows=[5])) is RowsBy.POSITION
    cut = add_selected(context, 399, b"another file", without_rows=[7])
    assert find_row_matching(cut, add_selected(context, 399, without_rows=[7])) is RowsBy.ORDER
    assert find_row_matching(cut, add_selected(context, 399, without_rows=[5])) is RowsBy.POSITION
    assert find_row_matching(cut, add_selected(context, 399, b"a third file")) is None
    ids = [add_embedding(context, "one", {"isoscore": 1.0}), add_embedding(context, "two", {"isoscore": 1.0}, n=500)]
    answer = client.post("/api/compare/alignments", json={"id": ids})
    assert (answer.status_code, answer.json()["field"]) == (422, "id")
    assert "no rows in common" in answer.json()["detail"]
    assert "Row by row" not in client.get(f"/compare?id={ids[0]}&id={ids[1]}").text
