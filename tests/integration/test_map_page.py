import io
import re
from base64 import b64decode
from urllib.parse import urlencode

import numpy as np
import pytest
from pyarrow import parquet
from scipy.spatial.distance import cdist
from sqlalchemy import delete, select

from app.db.models import FigureData, FigureFile, MapLayout, Measurement, ResultStatus
from app.db.point_map import MAP, MAP_VECTORS, MapHeader
from app.embeddings import point_map
from app.embeddings.figures import row_map
from app.embeddings.selections import format_rows, parse_rows
from isoscope.core.errors import InvalidError
from isotropy import cloud as clouds
from isotropy.cloud import NEIGHBORS
from isotropy.projection import NAME_CHARACTERS
from tests.cached_rows import make_once
from tests.long_cases import mark_long
from workers.embeddings import point_map as map_files

N, D = 60, 4
TWIN = 11
"""A row that equals the first."""
NUMBERED = 9
"""A row whose name is the number of another."""
WORDS = {"cosine": "cosine", "dot": "dot product", "euclidean": "Euclidean distance"}
SELECTION = {"vectors": ["a", "b", "c", "d"], "names": "name", "labels": None}


def make_points():
    x = np.random.default_rng(5).normal(size=(N, D)) * [5, 3, 1, 1]
    x[TWIN] = x[0]
    return x.round(4)


def measure(client, work, **selection):
    """Upload the points with a name, a price and a kind of each row; return the id of the measured embedding."""
    names = [f"word {i}" for i in range(N)]
    names[NUMBERED] = "20"
    lines = [
        f"{name},{i / 8},{'ab'[i % 3 == 0]},{','.join(map(str, row))}"
        for i, (name, row) in enumerate(zip(names, make_points(), strict=True))
    ]
    file = "\n".join(["name,price,kind,a,b,c,d", *lines])
    embedding_id = client.post("/api/embeddings", files={"file": ("named.csv", file)}).json()["id"]
    work()
    client.put(f"/api/embeddings/{embedding_id}/selection?commit=auto", json=SELECTION | selection)
    work(background=True)
    return embedding_id


@pytest.fixture
def embedding_id(client, context, work, module_cache):
    return make_once(context, module_cache, "embedding", lambda: measure(client, work))


@pytest.fixture
def few_pairs(monkeypatch):
    """Measure neighbors among 20 rows, so that others are searched in the stored vectors."""
    monkeypatch.setattr(clouds, "PAIR_ROWS", 20)


def find_row(client, embedding_id, row):
    return client.get(f"/embeddings/{embedding_id}", params={"row": row}).text


def draw(client, embedding_id, color="", layout=""):
    parameters = {"color": color, "layout": layout}
    figure = client.get(f"/embeddings/{embedding_id}/map/plot.json", params=parameters).json()
    for trace in figure["data"]:
        for holder in (trace, trace["marker"]):
            holder |= {
                key: np.frombuffer(b64decode(value["bdata"]), value["dtype"]).tolist()
                for key, value in holder.items()
                if isinstance(value, dict) and "bdata" in value
            }
    return figure["data"], figure["layout"]


def nearest(row):
    cosines = compute_similarities(row, "cosine")
    cosines[TWIN] = -np.inf
    order = (-cosines).argsort(kind="stable")[:NEIGHBORS]
    return order, cosines[order]


def near_attribute(positions):
    return f'data-near="{" ".join(map(str, positions))}"'


def test_plot_shows_projection_names_and_colors(client, embedding_id):
    (trace,), layout = draw(client, embedding_id)
    x = make_points()
    centered = x - x.mean(axis=0)
    axes = np.linalg.svd(centered, full_matrices=False)[2][:2]
    axes *= np.sign(axes[np.arange(2), np.abs(axes).argmax(axis=1)])[:, None]
    assert np.column_stack([trace["x"], trace["y"]]) == pytest.approx(centered @ axes.T, abs=1e-3)
    assert (trace["customdata"], trace["text"][:2]) == (list(range(N)), ["word 0", "word 1"])
    assert (trace["type"], layout["yaxis"]["scaleanchor"]) == ("scattergl", "x")
    page = find_row(client, embedding_id, "0")
    assert '<option value="column-1">kind</option>' in page
    kinds, _ = draw(client, embedding_id, "column-1")
    assert [trace["name"] for trace in kinds] == ["a (40)", "b (20)"]
    (prices, *legend), _ = draw(client, embedding_id, "column-2")
    assert prices["marker"]["color"] == [i / 8 for i in range(N)]
    assert [entry["name"] for entry in legend] == ["0.0737 or less", "2.48", "4.89", "7.30 or more"]
    expected = pytest.approx(np.quantile(np.arange(N) / 8, (0.01, 0.99)))
    assert (prices["marker"]["cmin"], prices["marker"]["cmax"]) == expected
    counts = np.bincount(np.concatenate([nearest(row)[0] for row in range(N) if row != TWIN]), minlength=N)
    counts[TWIN] = counts[0]
    (hubness, *_), _ = draw(client, embedding_id, "column-0")
    assert hubness["marker"]["color"] == counts.tolist()
    (norms, *_), _ = draw(client, embedding_id, "norm")
    assert norms["marker"]["color"] == pytest.approx(np.linalg.norm(make_points(), axis=1), rel=1e-5)


def test_second_layout_draws_same_rows_near_their_neighbors(client, context, embedding_id):
    header = client.get(f"/api/embeddings/{embedding_id}/figure-data/map").json()["layout"]
    (trace,), layout = draw(client, embedding_id, layout="neighbors")
    (components,), _ = draw(client, embedding_id)
    assert [trace[key] for key in ("customdata", "text")] == [components[key] for key in ("customdata", "text")]
    assert (trace["x"][0], trace["y"][0]) == (trace["x"][TWIN], trace["y"][TWIN])
    assert layout["xaxis"]["showticklabels"] is False
    distinct = [row for row in range(N) if row != TWIN]
    for figure, drawn in (("neighbors_kept", trace), ("kept_by_components", components)):
        distances = cdist(*[np.column_stack([drawn["x"], drawn["y"]])[distinct]] * 2)
        np.fill_diagonal(distances, np.inf)
        near = np.array(distinct)[distances.argsort(axis=1)[:, :NEIGHBORS]]
        shared = [len(set(nearest(row)[0]) & set(near[i])) for i, row in enumerate(distinct)]
        assert header[figure] == pytest.approx(np.mean(shared), abs=0.02)
    kinds, _ = draw(client, embedding_id, "column-1", "neighbors")
    assert [kind["name"] for kind in kinds] == ["a (40)", "b (20)"]
    page = client.get(f"/embeddings/{embedding_id}?layout=neighbors").text
    assert '<option value="neighbors" selected>Neighbors</option>' in page
    keeps = f"Keeps {header['neighbors_kept']:.1f} of 10 nearest neighbors by cosine; PCA keeps"
    assert f"{keeps} {header['kept_by_components']:.1f}. Distances between clusters mean nothing." in page
    assert f"nearest neighbors by cosine; Neighbors keeps {header['neighbors_kept']:.1f}." in find_row(
        client, embedding_id, 7
    )
    table = parquet.read_table(io.BytesIO(client.get(f"/embeddings/{embedding_id}/map/map.parquet").content))
    assert table["layout_x"].to_pylist() == pytest.approx(trace["x"])
    assert "earlier version" not in page


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (None, "An earlier version measured these rows. Choose again on the Details tab to add Neighbors."),
        (ResultStatus.QUEUED, "Neighbors, a second layout, appears once a worker has computed it."),
        (ResultStatus.FAILED, "No room."),
    ],
)
def test_map_without_second_layout_shows_components_and_reason(client, context, embedding_id, status, words):
    with context.sessions.begin() as session:
        figure = session.get_one(FigureData, (embedding_id, MAP))
        figure.data = {key: value for key, value in figure.data.items() if key != "layout"}
        row = session.scalars(select(MapLayout)).one()
        if status is None:
            session.delete(row)
        else:
            row.status, row.error = status, "No room." if status is ResultStatus.FAILED else None
    page = client.get(f"/embeddings/{embedding_id}?layout=neighbors").text
    assert words in page
    assert ('hx-select="#map-note"' in page) == (status is ResultStatus.QUEUED)
    polled = client.get(f"/embeddings/{embedding_id}/map/figure.html?tab=map").text
    (note,) = re.findall(r'<span id="map-note".*?</span>', page)
    assert note in polled
    assert [polled.count(f'id="{part}"') for part in ("map-layout", "map-caption", "map-row")] == [1, 1, 0]
    assert 'name="layout"><option' not in page
    assert "layout=pca" in page
    (trace,), _ = draw(client, embedding_id, layout="neighbors")
    assert trace["x"] == draw(client, embedding_id)[0][0]["x"]


def test_each_label_has_trace_with_count(client, work):
    embedding_id = measure(client, work, labels="kind")
    traces, layout = draw(client, embedding_id)
    assert layout["showlegend"]
    expected = {"a (40)": [i for i in range(N) if i % 3], "b (20)": [i for i in range(N) if i % 3 == 0]}
    assert {trace["name"]: trace["customdata"] for trace in traces} == expected


def test_map_of_earlier_version_shows_projection(client, context, embedding_id):
    page = client.get(f"/embeddings/{embedding_id}?tab=map").text
    assert "/map/plot.json" in page
    assert "earlier version" not in page
    with context.sessions.begin() as session:
        header = session.get_one(FigureData, (embedding_id, MAP)).data
        session.execute(delete(FigureFile).where(FigureFile.embedding_id == embedding_id))
    answer = client.get(f"/embeddings/{embedding_id}/map/plot.json")
    assert (answer.status_code, "points of this map are gone" in answer.text) == (404, True)
    with context.sessions.begin() as session:
        session.execute(delete(FigureData).where(FigureData.embedding_id == embedding_id, FigureData.slug == MAP))
    assert client.get(f"/embeddings/{embedding_id}/map/plot.json").status_code == 404
    page = client.get(f"/embeddings/{embedding_id}?tab=map").text
    assert "/map/plot.json" not in page
    assert "figures/projection.html" in page
    assert "An earlier version measured this embedding." in page
    former = MapHeader.model_validate({key: header[key] for key in header.keys() - {"columns", "neighbors", "vectors"}})
    assert (former.columns, former.neighbors, former.vectors) == ([], None, 0)
    assert client.get(f"/embeddings/{'0' * 32}/map/plot.json").status_code == 404


@pytest.mark.parametrize(("measured", "n", "name"), [("selected", 21, "21 rows of"), ("rest", N - 21, "without 21")])
def test_selection_is_measured(client, work, embedding_id, measured, n, name):
    data = {"rows": "0-9 12 20-29", "measure": measured}
    answer = client.post(f"/embeddings/{embedding_id}/map/selection", data=data)
    work()
    selection = client.get("/api" + answer.headers["location"]).json()
    assert (selection["status"], selection["n"], selection["source_id"]) == ("ready", n, embedding_id)
    assert name in selection["name"]
    (trace,), _ = draw(client, selection["id"])
    remaining = {*range(10), 12, *range(20, 30)}
    assert set(trace["customdata"]) == (remaining if measured == "selected" else set(range(N)) - remaining)


def test_rows_are_found_by_number_and_name(client, embedding_id):
    for row in ["7", "word 7", " WORD 7 "]:
        page = find_row(client, embedding_id, row)
        positions, cosines = nearest(7)
        assert 'data-row="7"' in page
        assert near_attribute(positions) in page
        assert "Row 7 · word 7" in page
        assert f"{cosines[0]:.3g}" in page
        assert [f'<th scope="col">{column}</th>' in page for column in ("kind", "price")] == [True, True]
        assert f"<td>{positions[0] / 8:.3g}</td>" in page
    assert near_attribute(nearest(0)[0]) in find_row(client, embedding_id, TWIN)
    assert near_attribute(nearest(0)[0]) in find_row(client, embedding_id, 0)
    page = find_row(client, embedding_id, "20")
    for part in ('data-row="20"', "Also named so", f"row={NUMBERED}"):
        assert part in page
    cases = [
        ("word 99", "No row is named word 99."),
        ("60", "No row 60 here. The map shows 60 rows, numbered from 0 to 59."), ("9" * 30, "numbered from 0 to 59"),
    ]  # fmt: skip
    for row, words in cases:
        page = find_row(client, embedding_id, row)
        assert words in page
        assert "data-row=" not in page
    page = find_row(client, embedding_id, "ORD 5")
    assert "Names that contain it" in page
    assert [f">word {row}<" in page for row in (5, 50, 56, 4)] == [True, True, True, False]
    assert "No row" not in find_row(client, embedding_id, " ")
    assert point_map.MAX_QUERY_CHARACTERS == NAME_CHARACTERS


def test_row_numbers_are_those_of_uploaded_file(client, work):
    file = io.BytesIO()
    np.save(file, np.vstack([np.zeros((2, D)), make_points()]))
    embedding_id = client.post("/api/embeddings", files={"file": ("x.npy", file.getvalue())}).json()["id"]
    work()
    assert client.post(f"/api/embeddings/{embedding_id}/commit?similarity=nearness").status_code == 422
    client.post(f"/api/embeddings/{embedding_id}/commit?similarity=cosine")
    work()
    assert "Nearest by cosine" in find_row(client, embedding_id, 3)
    assert "These rows have no names. Enter a row number." in find_row(client, embedding_id, "word")
    zeros = "This row is all zeros. It has no direction, so no row is near to it by cosine."
    assert zeros in find_row(client, embedding_id, 1)
    embedding_id = measure(client, work, without_rows=list(range(30)))
    assert "Row 40 · word 40" in find_row(client, embedding_id, 40)
    assert "numbered from 30 to 59" in find_row(client, embedding_id, 5)
    for row in (30, 59):
        assert f'data-row="{row}"' in find_row(client, embedding_id, f"word {row}")
    measurements = client.get(f"/api/embeddings/{embedding_id}").json()["measurements"]
    hubs = next(measurement for measurement in measurements if measurement["measure"] == "hubness")["detail"]["hubs"]
    assert all(hub["row"] >= 30 and hub["name"] == f"word {hub['row']}" for hub in hubs)


def compute_similarities(row, similarity):
    x = make_points()
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    scores = {"cosine": unit @ unit[row], "dot": x @ x[row], "euclidean": -cdist(x, x[[row]])[:, 0]}[similarity]
    scores[row] = -np.inf
    return scores


@pytest.mark.parametrize("similarity", WORDS)
def test_measures_map_and_search_use_chosen_similarity(client, work, similarity):
    embedding_id = measure(client, work, similarity=similarity)
    embedding = client.get(f"/api/embeddings/{embedding_id}").json()
    measurements = {measurement["measure"]: measurement for measurement in embedding["measurements"]}
    assert embedding["selection"]["similarity"] == measurements["hubness"]["detail"]["similarity"] == similarity
    scores = compute_similarities(7, similarity)
    scores[TWIN] = -np.inf
    positions = scores.argsort()[::-1][:NEIGHBORS]
    page = find_row(client, embedding_id, 7)
    assert near_attribute(positions) in page
    assert f"Nearest by {WORDS[similarity]}, among 60 rows. Copies of a row count once." in page.replace("\u00a0", " ")
    assert f"{abs(scores[positions[0]]):.3g}" in page
    answer = client.get(f"/api/embeddings/{embedding_id}/neighbors", params={"name": "word 7"}).json()
    neighbors = answer["results"]["of"][0]["before"]
    assert [neighbor["row"] for neighbor in neighbors] == positions.tolist()
    assert neighbors[0][similarity] == pytest.approx(abs(scores[positions[0]]), rel=1e-5)
    assert f"nearest by {WORDS[similarity]}. Without hubs" in client.get(f"/embeddings/{embedding_id}?tab=map").text


@pytest.mark.parametrize("similarity", mark_long(WORDS, "cosine".__eq__))
def test_unmeasured_rows_are_searched_in_stored_vectors(client, context, work, few_pairs, similarity):
    embedding_id = measure(client, work, similarity=similarity)
    with context.sessions() as session:
        header = MapHeader.model_validate(session.get_one(FigureData, (embedding_id, MAP)).data)
    assert (header.vectors, header.neighbors.rows) == (N, 20)
    searched = []
    for row in range(N):
        answer = client.get(f"/api/embeddings/{embedding_id}/neighbors", params={"name": f"word {row}"})
        if answer.status_code == 200 and answer.json()["results"]["rows"] == N:
            searched.append(row)
            scores = compute_similarities(row, similarity)
            neighbors = answer.json()["results"]["of"][0]["before"]
            values = [abs(neighbor[similarity]) for neighbor in neighbors]
            expected = np.abs(np.sort(scores)[::-1][: len(values)])
            # float16 has eleven bits.
            assert values == pytest.approx(expected, rel=5e-3, abs=5e-3 * np.abs(make_points()).max())
    assert len(searched) >= N - 22
    page = find_row(client, embedding_id, f"word {searched[0]}").replace("\u00a0", " ")
    assert f"Nearest by {WORDS[similarity]}, among 60 rows." in page
    assert "Copies of a row" not in page
    with context.sessions() as session:
        files = dict(session.execute(select(FigureFile.slug, FigureFile.file_sha256)).all())
    assert MAP_VECTORS in files
    assert all(context.storage.exists(sha256) for sha256 in files.values())
    client.delete(f"/api/embeddings/{embedding_id}")
    client.delete(f"/api/trash/{embedding_id}")
    assert not any(context.storage.exists(sha256) for sha256 in files.values())


@pytest.mark.long
def test_rows_beyond_stored_sample_are_explained(client, context, work, few_pairs, monkeypatch):
    monkeypatch.setattr(map_files, "MAX_VECTOR_BYTES", 30 * D * 2)
    embedding_id = measure(client, work)
    pages = [find_row(client, embedding_id, row).replace("\u00a0", " ") for row in range(N)]
    assert sum("among 30 rows of 60." in page for page in pages) >= 15
    assert any("Neighbors are known for a sample of 30 rows. This row is not one of them." in page for page in pages)
    with context.sessions.begin() as session:
        session.execute(delete(FigureFile).where(FigureFile.slug == MAP_VECTORS))
    pages = [find_row(client, embedding_id, row) for row in range(N)]
    assert sum("Choose again on the Details tab to measure these vectors again" in page for page in pages) == N - 20


def test_hubs_are_listed_and_link_to_map(client, context, embedding_id):
    measurements = client.get(f"/api/embeddings/{embedding_id}").json()["measurements"]
    hubs = next(measurement for measurement in measurements if measurement["measure"] == "hubness")["detail"]["hubs"]
    counts = np.bincount(np.concatenate([nearest(row)[0] for row in range(N) if row != TWIN]), minlength=N)
    assert [hub["occurrences"] for hub in hubs] == sorted(counts.tolist(), reverse=True)[:10]
    assert all(hub["occurrences"] == counts[hub["row"]] and hub["name"] == f"word {hub['row']}" for hub in hubs)
    address = f"/embeddings/{embedding_id}?tab=map"
    link = f'<a href="/embeddings/{embedding_id}?tab=map&amp;row={hubs[0]["row"]}#map">{hubs[0]["name"]}</a>'
    assert link in client.get(address).text
    table = client.get(address).text.partition('id="hubs"')[2].partition("</section>")[0]
    row = client.get(f"{address}&row={hubs[0]['row']}").text.partition('id="map-row"')[2]
    details = re.findall(r"\w+: ([^,<]+)", row.partition('class="soft">')[2].partition("</p>")[0])
    assert details
    assert all(f"<td>{value}</td>" in table for value in details)
    report = client.get(f"/embeddings/{embedding_id}/report.html").text
    assert "Greatest hubs" in report
    assert "tab=map&amp;row" not in report
    with context.sessions.begin() as session:
        hubness = session.scalars(select(Measurement).where(Measurement.measure == "hubness")).one()
        hubness.detail = {key: value for key, value in hubness.detail.items() if key != "hubs"}
    assert "Greatest hubs" not in client.get(address).text
    missing = client.get(f"/api/embeddings/{embedding_id}/neighbors", params={"name": "x"})
    assert (missing.status_code, missing.json()["detail"]) == (404, "No row is named 'x'.")


def test_address_selects_rows_and_invalid_rows_are_rejected(client, embedding_id):
    page = client.get(f"/embeddings/{embedding_id}?{urlencode({'select': '3-5 9'})}").text
    assert 'name="rows" value="3-5 9"' in page
    assert client.get(f"/embeddings/{embedding_id}?select=some").status_code == 422
    cases = [
        (" ", "No rows are selected"), ("3-x", "names no rows"), ("9-2", "names no rows"), ("0-1000000", "too many"),
        ("60", "has no row 60"), ("0-59", "all rows"),
    ]  # fmt: skip
    for rows, words in cases:
        answer = client.post(f"/embeddings/{embedding_id}/map/selection", data={"rows": rows, "measure": "selected"})
        assert answer.status_code in (400, 422)
        assert words in answer.text
    assert parse_rows("5 0-2 1-3") == [0, 1, 2, 3, 5]
    assert format_rows([5, 0, 1, 2, 2]) == "0-2 5"
    with pytest.raises(InvalidError) as raised:
        parse_rows("a")
    assert raised.value.field == "rows"


def test_parquet_has_all_rows_and_large_map_draws_sample(client, embedding_id, monkeypatch):
    answer = client.get(f"/embeddings/{embedding_id}/map/map.parquet")
    assert "named-csv-map.parquet" in answer.headers["content-disposition"]
    table = parquet.read_table(io.BytesIO(answer.content))
    coordinates = ["x", "y", "norm", "layout_x", "layout_y"]
    assert table.column_names == ["row", "name", *coordinates, "neighbors", "hubness", "kind", "price"]
    assert (table["row"].to_pylist(), table["name"].to_pylist()[NUMBERED]) == (list(range(N)), "20")
    assert table["norm"].to_numpy() == pytest.approx(np.linalg.norm(make_points(), axis=1), rel=1e-5)
    assert table["kind"].to_pylist()[:3] == ["b", "a", "a"]
    positions, cosines = nearest(7)
    neighbors = table["neighbors"].to_pylist()[7]
    assert neighbors["ids"] == positions.tolist()
    assert neighbors["distances"] == pytest.approx(1 - cosines, rel=1e-4, abs=1e-6)
    for module in (point_map, row_map):
        monkeypatch.setattr(module, "MAX_DRAWN", 20)
    monkeypatch.setattr(row_map, "MARKER_SIZES", ((20, 2),))
    (trace,), _ = draw(client, embedding_id)
    assert len(trace["x"]) == len(set(trace["customdata"])) == 20
    assert trace["customdata"] != list(range(20))
    assert "20 of them, chosen at random, are drawn." in find_row(client, embedding_id, "0")
