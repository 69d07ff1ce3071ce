"""Rows of a map by number or name with their neighbors, its kept columns, large selections, and it as a table."""

import io
from base64 import b64encode

import numpy as np
import pytest
from pyarrow import parquet
from scipy.spatial.distance import cdist
from sqlalchemy import select

from app.db.models import Measurement
from app.db.point_map import MapHeader
from app.embeddings.map_rows import MAX_ASKED_CHARACTERS
from isotropy.cloud import NEIGHBOURS
from isotropy.projection import NAME_CHARACTERS
from tests.once import make_once

N, D = 60, 4
TWIN = 11
"""A row that equals the first."""
NUMBERED = 9
"""A row whose name is the number of another."""


def cloud():
    x = np.random.default_rng(5).normal(size=(N, D)) * [5, 3, 1, 1]
    x[TWIN] = x[0]
    return x.round(4)


def uploaded(client, work):
    names = [f"word {i}" for i in range(N)]
    names[NUMBERED] = "20"
    lines = [
        f"{name},{i / 8},{'ab'[i % 3 == 0]},{','.join(map(str, row))}"
        for i, (name, row) in enumerate(zip(names, cloud(), strict=True))
    ]
    file = "\n".join(["name,price,kind,a,b,c,d", *lines])
    made = client.post("/api/embeddings", files={"file": ("named.csv", file)}).json()["id"]
    work()
    chosen = {"vectors": ["a", "b", "c", "d"], "names": "name", "labels": None}
    client.put(f"/api/embeddings/{made}/selection?commit=auto", json=chosen)
    work()
    return made


@pytest.fixture
def source(client, context, work, trained_once):
    return make_once(context, trained_once, "source", lambda: uploaded(client, work))


def asked(client, source, row):
    return client.get(f"/embeddings/{source}", params={"row": row}).text


def nearest(row):
    """Places and distances of the nearest of distinct rows, nearest first."""
    x = cloud()
    far = cdist(x[[row]], x)[0]
    far[[row, TWIN]] = np.inf
    return far.argsort(kind="stable")[:NEIGHBOURS], np.sort(far)[:NEIGHBOURS]


def near(places):
    return f'data-near="{" ".join(map(str, places))}"'


def test_the_greatest_hubs_are_listed_by_name_with_their_place_on_the_map(client, source):
    measured = client.get(f"/api/embeddings/{source}").json()["measurements"]
    hubs = next(one for one in measured if one["measure"] == "hubness")["detail"]["hubs"]
    others = [row for row in range(N) if row != TWIN]
    counts = np.bincount(np.concatenate([nearest(row)[0] for row in others]), minlength=N)
    order = sorted(range(N), key=lambda row: -counts[row])
    assert [one["occurrences"] for one in hubs] == [counts[row] for row in order[:10]]
    assert all(one["occurrences"] == counts[one["row"]] for one in hubs)
    assert {one["row"]: one["name"] for one in hubs} == {one["row"]: f"word {one['row']}" for one in hubs}
    page = client.get(f"/embeddings/{source}", params={"tab": "neighbors"}).text
    first = hubs[0]
    assert f'<a href="/embeddings/{source}?tab=map&amp;row={first["row"]}#map">{first["name"]}</a>' in page
    kept = client.get(f"/embeddings/{source}/report.html").text
    assert "Greatest hubs" in kept
    assert "tab=map&amp;row" not in kept


def test_hubs_of_a_selection_are_places_in_the_file(client, work, source):
    chosen = {"vectors": ["a", "b", "c", "d"], "names": "name", "without_rows": [0, 1, 2]}
    client.put(f"/api/embeddings/{source}/selection?commit=auto", json=chosen)
    work()
    measured = client.get(f"/api/embeddings/{source}").json()["measurements"]
    hubs = next(one for one in measured if one["measure"] == "hubness")["detail"]["hubs"]
    assert all(one["row"] > 2 and one["name"] in (f"word {one['row']}", "20") for one in hubs)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_a_similarity_that_is_chosen_is_that_of_measures_map_and_look_ups(client, work, source, similarity):
    chosen = {"vectors": ["a", "b", "c", "d"], "names": "name", "similarity": similarity}
    client.put(f"/api/embeddings/{source}/selection", json=chosen)
    work()
    assert f'<option value="{similarity}" selected>' in client.get(f"/embeddings/{source}").text
    client.post(f"/api/embeddings/{source}/commit")
    work()
    found = client.get(f"/api/embeddings/{source}").json()
    measured = {one["measure"]: one for one in found["measurements"]}
    assert found["selection"]["similarity"] == measured["hubness"]["detail"]["similarity"] == similarity
    assert (measured["twonn"]["value"] is None) == (similarity == "dot")
    x = cloud()
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    near = {"cosine": unit @ unit.T, "dot": x @ x.T, "euclidean": -cdist(x, x)}[similarity]
    near[7, [7, TWIN]] = -np.inf
    places = near[7].argsort()[::-1][:NEIGHBOURS]
    page = asked(client, source, 7)
    words = {"cosine": "cosine", "dot": "dot product", "euclidean": "Euclidean distance"}[similarity]
    assert f'data-near="{" ".join(map(str, places))}"' in page
    assert f"Nearest by {words}, among 60 rows" in page
    assert f"{abs(near[7, places[0]]):.3g}" in page
    client.post(f"/api/embeddings/{source}/neighbors", json={"name": "word 7"})
    work()
    results = client.get(f"/api/embeddings/{source}/neighbors", params={"name": "word 7"}).json()["results"]
    (first, *_) = results["of"][0]["before"]
    assert results["similarity"] == similarity
    assert first[similarity] == pytest.approx(abs(near[7, places[0]]), rel=1e-6)
    listed = client.get(f"/embeddings/{source}", params={"tab": "neighbors"}).text
    assert f"nearest neighbors of other rows by {words}" in listed
    assert f"The nearest rows by {words} among" in listed


def test_a_draft_is_measured_by_the_similarity_that_its_commit_names(client, work):
    rows = np.vstack([np.zeros((2, D)), cloud()])
    file = io.BytesIO()
    np.save(file, rows)
    made = client.post("/api/embeddings", files={"file": ("x.npy", file.getvalue())}).json()["id"]
    work()
    assert client.post(f"/api/embeddings/{made}/commit?similarity=nearness").status_code == 422
    client.post(f"/api/embeddings/{made}/commit?similarity=cosine")
    work()
    found = client.get(f"/api/embeddings/{made}").json()
    assert next(one for one in found["measurements"] if one["measure"] == "hubness")["n"] == N - 1
    assert "This row is all zeros. It has no direction, so no row is near to it by cosine." in asked(client, made, 1)


def test_a_report_of_an_earlier_version_lists_no_hubs(client, context, source):
    with context.sessions.begin() as session:
        found = session.scalars(select(Measurement).where(Measurement.measure == "hubness")).one()
        found.detail = {name: one for name, one in found.detail.items() if name != "hubs"}
    page = client.get(f"/embeddings/{source}", params={"tab": "neighbors"})
    assert page.status_code == 200
    assert "Greatest hubs" not in page.text


@pytest.mark.parametrize("row", ["7", "word 7", " word 7 "])
def test_a_row_is_found_by_number_and_by_name_with_its_neighbors(client, source, row):
    page = asked(client, source, row)
    places, distances = nearest(7)
    assert 'data-row="7"' in page
    assert near(places) in page
    assert "Row 7</h3>" not in page
    assert "Row 7 · word 7" in page
    assert f"{distances[0]:.3g}" in page


def test_a_copy_has_the_neighbors_of_the_row_that_it_equals(client, source):
    assert near(nearest(0)[0]) in asked(client, source, TWIN)
    assert near(nearest(0)[0]) in asked(client, source, 0)


def test_a_number_that_is_a_name_too_offers_both(client, source):
    page = asked(client, source, "20")
    assert 'data-row="20"' in page
    assert "Also named so" in page
    assert f"row={NUMBERED}" in page


@pytest.mark.parametrize(
    ("row", "words"),
    [("word 99", "No row is named word 99."), ("60", "No row 60 here. The map shows 60 rows, numbered from 0 to 59."),
     ("9" * 30, "numbered from 0 to 59")],
)  # fmt: skip
def test_what_is_not_there_is_told(client, source, row, words):
    page = asked(client, source, row)
    assert words in page
    assert "data-row=" not in page


def test_names_that_contain_it_are_offered_whatever_their_case(client, source):
    page = asked(client, source, "WORD 5")
    assert "Names that contain it" in page
    assert [f">word {one}<" in page for one in (5, 50, 56, 4)] == [True, True, True, False]


def test_rows_without_names_are_found_by_number(client, work):
    file = io.BytesIO()
    np.save(file, cloud())
    made = client.post("/api/embeddings?commit=auto", files={"file": ("x.npy", file.getvalue())}).json()["id"]
    work()
    assert near(nearest(3)[0]) in asked(client, made, 3)
    assert "These rows have no names. Give the number of one." in asked(client, made, "word")


def test_numbers_are_those_of_the_file_where_a_selection_leaves_rows_out(client, work, source):
    answer = client.post(f"/embeddings/{source}/map/selection", data={"rows": "0-29", "measure": "rest"})
    work()
    made = answer.headers["location"].rpartition("/")[2]
    assert "Row 40 · word 40" in asked(client, made, 40)
    assert "numbered from 30 to 59" in asked(client, made, 5)
    assert 'data-row="30"' in asked(client, made, "word 30")
    assert 'data-row="59"' in asked(client, made, "word 59")


def test_an_empty_search_finds_nothing(client, source):
    page = asked(client, source, " ")
    assert 'id="map-row"' in page
    assert "No row" not in page


def test_names_are_asked_for_in_as_many_characters_as_maps_keep():
    assert MAX_ASKED_CHARACTERS == NAME_CHARACTERS


def test_kept_columns_and_hubness_color_rows(client, source):
    document = client.get(f"/embeddings/{source}/map/map.json").json()
    hubness, kind, price = document["columns"]
    assert (hubness["name"], price["name"], kind["name"]) == ("hubness", "price", "kind")
    assert np.frombuffer(client.get(price["address"]).content, "<f4").tolist() == [i / 8 for i in range(N)]
    assert [(one["name"], one["count"]) for one in kind["groups"]] == [("a", 40), ("b", 20)]
    codes = np.frombuffer(client.get(kind["address"]).content, "<u2")
    assert codes.tolist() == [int(i % 3 == 0) for i in range(N)]
    counted = np.bincount(np.concatenate([nearest(row)[0] for row in range(N) if row != TWIN]), minlength=N)
    counted[TWIN] = counted[0]
    assert np.frombuffer(client.get(hubness["address"]).content, "<f4").tolist() == counted.tolist()
    page = asked(client, source, "")
    assert '<option value="column-1">kind</option>' in page
    assert 'data-map-legend="column-1"' in page


def test_a_map_of_an_earlier_version_has_neither(client, context, source):
    header = MapHeader.model_validate(client.get(f"/embeddings/{source}/map/map.json").json()["header"])
    former = header.model_dump(exclude={"columns", "neighbors"})
    assert (MapHeader.model_validate(former).columns, MapHeader.model_validate(former).neighbors) == ([], None)


def bits(chosen):
    wanted = np.zeros(N, bool)
    wanted[chosen] = True
    return b64encode(np.packbits(wanted).tobytes()).decode()


def of(client, source):
    return client.get(f"/embeddings/{source}/map/map.json").json()["points"].split("/")[-2]


@pytest.mark.parametrize(("measure", "n"), [("selected", 20), ("rest", 40)])
def test_a_selection_comes_as_bits_too(client, work, source, measure, n):
    data = {"bits": bits(range(0, N, 3)), "of": of(client, source), "measure": measure}
    answer = client.post(f"/embeddings/{source}/map/selection", data=data)
    work()
    made = client.get("/api" + answer.headers["location"]).json()
    chosen = {i for i in range(N) if i % 3 == 0}
    left_out = chosen if measure == "rest" else set(range(N)) - chosen
    assert (made["status"], made["n"], set(made["selection"]["without_rows"])) == ("ready", n, left_out)


@pytest.mark.parametrize(
    ("sent", "other", "status", "words"),
    [("####", False, 422, "arrived incomplete"), ("AAAA", False, 422, "arrived incomplete"),
     ("A" * 12, False, 422, "arrived incomplete"), (None, False, 422, "No rows are selected"),
     (None, True, 409, "measured again")],
)  # fmt: skip
def test_bits_that_choose_nothing_are_refused(client, source, sent, other, status, words):
    data = {"bits": sent or bits([]), "of": "0" * 64 if other else of(client, source), "measure": "selected"}
    answer = client.post(f"/embeddings/{source}/map/selection", data=data)
    assert answer.status_code == status
    assert words in answer.text


def test_the_map_is_a_table_that_embedding_atlas_reads(client, source):
    answer = client.get(f"/embeddings/{source}/map/map.parquet")
    assert "named-csv-map.parquet" in answer.headers["content-disposition"]
    table = parquet.read_table(io.BytesIO(answer.content))
    assert table.column_names == ["row", "name", "x", "y", "norm", "neighbors", "hubness", "kind", "price"]
    assert table["row"].to_pylist() == list(range(N))
    assert table["name"].to_pylist()[NUMBERED] == "20"
    assert table["norm"].to_numpy() == pytest.approx(np.linalg.norm(cloud(), axis=1), rel=1e-5)
    assert table["kind"].to_pylist()[:3] == ["b", "a", "a"]
    places, distances = nearest(7)
    found = table["neighbors"].to_pylist()[7]
    assert found["ids"] == places.tolist()
    assert found["distances"] == pytest.approx(distances, rel=1e-5)
