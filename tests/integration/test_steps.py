import csv
import io
import re
from itertools import pairwise
from urllib.parse import urlencode

import numpy as np
import pytest

from tests.cached_rows import make_once
from tests.factories import add_embedding

N, D = 240, 6
MOVED = range(30, 36)


def steps(count=4, seed=0):
    """Return the steps of a random walk. The last one moves six rows far away."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(N, D))
    clouds = [x]
    for _ in range(count - 1):
        clouds.append(clouds[-1] + 0.1 * draw.normal(size=x.shape))
    clouds[-1][MOVED] = -3 * clouds[-1][MOVED]
    return clouds


def named_csv(x):
    lines = ["word," + ",".join(f"e{i}" for i in range(D))]
    lines += [f"word {row}," + ",".join(f"{value:.6g}" for value in x[row]) for row in range(len(x))]
    return "\n".join(lines).encode()


@pytest.fixture
def series(client, context, work, module_cache):
    def measure():
        files = [{"file": (f"step-{i}.csv", named_csv(x))} for i, x in enumerate(steps())]
        ids = [client.post("/api/embeddings?commit=auto", files=file).json()["id"] for file in files]
        work()
        return " ".join(ids)

    return make_once(context, module_cache, "series", measure).split()


def query(ids, **parameters):
    return urlencode([("id", row_id) for row_id in ids] + list(parameters.items()))


def test_changes_are_from_previous_and_first_embedding(client, series):
    def changes(to, ids=series):
        measures = client.get(f"/api/compare?{query(ids, to=to)}").json()["measures"]
        return {measure["measure"]: measure["differences"] for measure in measures}

    previous, first = changes("previous"), changes("first")
    isoscore = previous["isoscore_unbiased"]
    assert isoscore[0] is None
    assert all(difference["paired"] for difference in isoscore[1:])
    # A pair alone has the same numbers.
    for at in range(1, len(series)):
        assert changes("first", series[at - 1 : at + 1])["isoscore_unbiased"][1] == isoscore[at]
    total = sum(difference["value"] for difference in isoscore[1:])
    assert first["isoscore_unbiased"][-1]["value"] == pytest.approx(total)
    assert client.get(f"/api/compare?{query(series, to='last')}").status_code == 422
    table = client.get(f"/compare/measurements.csv?{query(series)}").text
    rows = [row for row in csv.DictReader(io.StringIO(table)) if row["measure"] == "isoscore_unbiased"]
    assert [row["embedding"] for row in rows] == [f"step-{i}.csv" for i in range(4)]
    assert rows[0]["difference"] == rows[0]["difference_from_previous"] == ""
    assert rows[1]["difference"] == rows[1]["difference_from_previous"] != ""
    assert rows[3]["difference"] != rows[3]["difference_from_previous"]
    assert float(rows[3]["low"]) < float(rows[3]["difference"]) < float(rows[3]["high"])
    assert (
        "Mean cosine similarity over the steps" in client.get(f"/compare?{query(series, measure='mean_cosine')}").text
    )
    assert "IsoScore, bias-corrected over" in client.get(f"/compare?{query(series, measure='x')}").text
    changes = client.get(f"/api/compare/figures/changes?{query(series, measure='mean_cosine')}").json()
    assert changes["title"] == "Changes of Mean cosine similarity"


def test_page_compares_every_step_and_lists_most_changed_rows(client, work, series):
    address = f"/compare?{query(series)}"
    page = client.get(address).text.replace("\u00a0", " ")
    for words in ("4 embeddings", "IsoScore, bias-corrected over the steps", "5 pairs of embeddings"):
        assert words in page
    answer = client.post(f"/compare/alignments?{query(series)}")
    assert answer.headers["location"] == f"{address}#alignments"
    assert "0 of 5 pairs compared" in client.get(address).text.replace("\u00a0", " ")
    client.post(f"/compare/rows?{query([series[0], series[-1]])}")
    work()
    page = client.get(address).text
    changed = page.partition("Rows that changed most</h3>")[2].partition("</table>")[0]
    assert {f"word {row}" for row in MOVED} <= set(re.findall(r">(word \d+)<", changed))
    figure = client.get(f"/api/compare/figures/cka?{query(series)}").json()
    assert figure["columns"][:3] == ["step", "embedding", "to the step before"]
    assert [row[2] is None for row in figure["rows"]] == [True, False, False, False]
    assert figure["rows"][1][2] == figure["rows"][1][6]
    alignments = client.get(f"/api/compare/alignments?{query(series, to='previous')}").json()
    assert [(pair["base_id"], pair["embedding_id"]) for pair in alignments] == list(pairwise(series))
    assert [pair["values"][0]["value"] for pair in alignments] == [row[2] for row in figure["rows"][1:]]


def test_moved_rows_are_listed_by_name(client, work, series):
    ends = [series[0], series[-1]]
    before = client.get(f"/api/compare/rows?{query(ends)}").json()
    assert (before["status"], before["rows"]) == (None, [])
    assert "Compare row by row" in client.get(f"/compare/rows?{query(ends)}").text
    assert client.post(f"/compare/rows?{query(ends)}").headers["location"] == f"/compare/rows?{query(ends)}"
    work()
    names = {f"word {row}" for row in MOVED}
    for by in ("neighbors", "residual"):
        moved = client.get(f"/api/compare/rows?{query(ends, by=by, limit=len(MOVED))}").json()
        assert (moved["status"], moved["compared"], moved["references"]) == ("ready", N, N)
        assert {entry["name"] for entry in moved["rows"]} == names
    table = list(csv.DictReader(io.StringIO(client.get(f"/compare/rows.csv?{query(ends, by='residual')}").text)))
    assert len(table) == N
    assert {row["name"] for row in table[: len(MOVED)]} == names
    page = client.get(f"/compare/rows?{query(ends)}").text
    assert f'href="/embeddings/{ends[0]}?tab=map&amp;row=30#map"' in page
    assert f'href="/compare/rows.csv?{query(ends).replace("&", "&amp;")}&amp;by=neighbors"' in page
    figure = client.get(f"/compare/rows/figures/kept.csv?{query(ends)}").text
    assert sum(int(float(row["rows"])) for row in csv.DictReader(io.StringIO(figure))) == N


def test_moved_rows_have_positions_in_both_files(client, work, series):
    (selection_id,) = [client.post(f"/api/embeddings/{series[0]}/selections", json={"rows": [0, 31]}).json()["id"]]
    work()
    pair = [selection_id, series[-1]]
    client.post("/api/compare/alignments", json={"id": pair})
    work()
    rows = client.get(f"/api/compare/rows?{query(pair, by='residual', limit=5)}").json()["rows"]
    assert {entry["name"] for entry in rows} == {f"word {row}" for row in MOVED if row != 31}
    assert all(entry["row"] == entry["other_row"] == int(entry["name"].split()[1]) for entry in rows)
    back = client.get(f"/api/compare/rows?{query(pair[::-1], by='residual', limit=5)}").json()["rows"]
    assert [entry["name"] for entry in back] == [entry["name"] for entry in rows]


def test_order_changes_and_row_comparison_needs_common_rows(client, context):
    ids = [add_embedding(context, f"step {i}", {"isoscore_unbiased": (0.5, 0.01)}) for i in (10, 9, 100)]
    page = client.get(f"/compare?{query(ids)}").text.replace("&amp;", "&")
    ordered = [ids[1], ids[0], ids[2]]
    assert f'href="/compare?{query(ordered)}">name</a>' in page
    assert f'href="/compare?{query(ordered)}">earlier' in page
    assert f'href="/compare?{query(ids[:2])}">remove' in page
    ids = [add_embedding(context, f"{i} any", {"isoscore_unbiased": (i / 10, 0.01)}) for i in range(9)]
    page = client.get(f"/compare?{query(ids)}").text
    assert "9 embeddings" in page.replace("\u00a0", " ")
    assert '<th scope="col" role="columnheader" class="n">Last</th>' in page
    assert "figure-spectrum" not in page
    for count in [1, 3]:
        ids = [add_embedding(context, values_by_measure={"isoscore": 1.0}) for _ in range(count)]
        answer = client.get(f"/api/compare/rows?{query(ids)}")
        assert (answer.status_code, answer.json()["detail"]) == (422, f"Expected 2 embeddings to compare, got {count}.")
    ids = [add_embedding(context, "one", {"isoscore": 1.0}), add_embedding(context, "two", {"isoscore": 1.0}, n=500)]
    answer = client.get(f"/api/compare/rows?{query(ids)}")
    assert (answer.status_code, answer.json()["detail"]) == (422, "one and two have no rows in common.")
