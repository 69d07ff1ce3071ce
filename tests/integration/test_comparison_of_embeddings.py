import csv
import html
import io
import re
from itertools import pairwise
from urllib.parse import urlencode

import numpy as np
import pytest

from app.core.evidence import block_degrees, t_quantile
from app.db.models import Alignment, Embedding, EmbeddingStatus, Encoding, FigureData, Pooling, RowsBy, StoredFile
from app.embeddings.alignments import find_row_matching
from tests.cached_rows import make_once
from tests.factories import add_embedding
from tests.queries import queries_of
from tests.uploads.good import npy

FIRST = {"isoscore_unbiased": (0.5, 0.03), "mean_cosine": (0.25, 0.01), "stable_rank": 2.0}
SECOND = {"isoscore_unbiased": (0.7, 0.04), "mean_cosine": (0.26, 0.01), "stable_rank": 3.0}
N, D = 240, 6
MOVED = range(30, 36)
NOISE = 0.5


@pytest.fixture
def pair(context):
    return [add_embedding(context, "first", FIRST), add_embedding(context, "<second>", SECOND)]


def query(ids, **parameters):
    return urlencode([("id", row_id) for row_id in ids] + list(parameters.items()))


def test_api_returns_values_and_differences_to_first(client, pair):
    answer = client.get(f"/api/compare?{query(pair)}").json()
    assert [embedding["name"] for embedding in answer["embeddings"]] == ["first", "<second>"]
    assert answer["cautions"] == []
    measures = {measure["measure"]: measure for measure in answer["measures"]}
    assert list(measures) == ["isoscore_unbiased", "stable_rank", "mean_cosine"]
    isoscore = measures["isoscore_unbiased"]
    assert [(row["value"], row["se"], row["n"]) for row in isoscore["found"]] == [(0.5, 0.03, 400), (0.7, 0.04, 400)]
    assert isoscore["differences"][0] is None
    half = t_quantile(0.05, block_degrees(10)) * 0.05
    assert isoscore["differences"][1] == {
        "value": pytest.approx(0.2), "se": pytest.approx(0.05), "low": pytest.approx(0.2 - half),
        "high": pytest.approx(0.2 + half), "excludes_zero": True, "paired": False, "n": None, "reason": "",
    }  # fmt: skip
    assert measures["mean_cosine"]["differences"][1]["excludes_zero"] is False
    assert measures["stable_rank"]["differences"][1] == {
        "value": 1, "se": None, "low": None, "high": None, "excludes_zero": None, "paired": False, "n": None,
        "reason": "One of the two has no standard error: it needs more independent rows.",
    }  # fmt: skip
    turned = client.get(f"/api/compare?{query(reversed(pair))}").json()
    assert turned["measures"][0]["differences"][1]["value"] == pytest.approx(-0.2)
    answer = client.get(f"/compare/measurements.csv?{query(pair)}")
    assert answer.headers["content-disposition"] == 'attachment; filename="isoscope-comparison.csv"'
    lines = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(lines) == 6
    first = {"measure": "isoscore_unbiased", "id": pair[0], "value": "0.5", "difference": ""}
    assert {name: lines[0][name] for name in first} == first
    assert float(lines[1]["difference_se"]) == pytest.approx(0.05)
    assert (lines[1]["embedding"], lines[1]["excludes_zero"]) == ("<second>", "True")
    assert (lines[3]["measure"], lines[3]["difference"], lines[3]["low"]) == ("stable_rank", "1.0", "")


def test_page_says_which_measures_differ(client, pair):
    page = " ".join(client.get(f"/compare?{query(pair)}").text.split())
    assert '+0.200 <small>(+0.0741 to +0.326)</small></span> <small class="apart">differs</small>' in page
    assert '+0.0100 <small>(−0.0256 to +0.0456)</small></span> <small class="">may be equal</small>' in page
    assert "+1.00 <small>no interval</small>" in page
    assert "1 of 3 have an interval that excludes 0. 1 have no interval." in page
    assert "&lt;second&gt;" in page
    text = html.unescape(page)
    assert f'href="/compare?{query(reversed(pair))}">make baseline' in text
    assert f'href="/compare?{query(pair[:1])}">remove<span class="sr"> <second>' in text


def test_filter_shows_only_differing_measures(client, context, pair):
    table = client.get(f"/compare?{query(pair, show='differing')}").text.partition('id="comparison"')[2]
    assert "/measures#isoscore_unbiased" in table
    assert "/measures#mean_cosine" not in table
    assert "/measures#stable_rank" not in table
    same = client.get(f"/compare?{query(pair[::-1], show='differing')}").text
    assert "show=differing" in same
    twins = [pair[0], add_embedding(context, "twin", FIRST)]
    page = client.get(f"/compare?{query(twins, show='differing')}").text
    assert "No interval excludes 0: these measures show no difference between the embeddings." in page
    ids = [add_embedding(context, name, {"isoscore": value}) for name, value in (("one", 0.5), ("other", 0.7))]
    page = client.get(f"/compare?{query(ids, show='differing')}").text
    assert "No difference has an interval, so these measures cannot show" in page
    assert "show no difference between" not in page


def test_projection_is_loaded_only_on_request(client, context, pair):
    cloud = {"n": 2, "x": [0.0, 1.0], "y": [0.0, 1.0], "shares": [0.5, 0.25], "labels": None, "density": None}
    with context.sessions.begin() as session:
        session.add_all(FigureData(embedding_id=embedding_id, slug="projection", data=cloud) for embedding_id in pair)
    pages = []

    def reads(path):
        statements = queries_of(context, lambda: pages.append(client.get(path).text))
        return [sql for sql, values in statements if "figure_data.data" in sql and "projection" in str(values)]

    address = f"/compare/figures/projection.html?{query(pair)}"
    assert reads(f"/compare?{query(pair)}") == reads(f"/compare/figures/spectrum.json?{query(pair)}") == []
    assert f'hx-get="{address}" hx-select="#late-projection"' in html.unescape(pages[0])
    assert len(reads(address)) == 2
    assert 'id="numbers-projection"' in pages[-1]
    plotted = client.get(f"/compare/figures/projection.json?{query(pair)}").json()
    assert len(plotted["data"]) >= 2


def test_figures_show_measured_embeddings(client, work):
    ids = [
        client.post("/api/embeddings?commit=auto", files={"file": ("x.csv", rows.encode())}).json()["id"]
        for rows in ("1,2\n3,4.5\n5,6\n7,7\n", "1,2.5\n3,1\n5,6\n7,7\n")
    ]
    work()
    page = html.unescape(client.get(f"/compare?{query(ids)}").text)
    address = f"/compare/figures/spectrum.json?{query(ids)}"
    assert address in page
    assert client.get(address).json()["data"]
    assert client.get(f"/compare/figures/spectrum.csv?{query(ids)}").text.count("\n") > 2
    assert client.get(f"/compare/figures/none.csv?{query(ids)}").status_code == 404


def test_page_asks_for_two_embeddings_and_keeps_manual_order(client, pair, context):
    assert "Select two or more embeddings in the library" in client.get("/compare").text
    single_page = client.get(f"/compare?id={pair[0]}&id=").text
    assert "One is chosen." in single_page
    assert f'<option value="{pair[1]}">&lt;second&gt; (400 × 8)</option>' in single_page
    assert f'<input type="hidden" name="id" value="{pair[0]}">' in single_page
    assert f'<option value="{pair[0]}">' not in single_page
    source = add_embedding(context, "raw", FIRST)
    whitened = add_embedding(context, "white", SECOND, source_id=source)
    answer = client.get(f"/compare?from=library&{query([whitened, source])}")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/compare?{query([source, whitened])}")
    assert client.get("/compare?from=library").headers["location"] == "/compare"
    by_hand = client.get(f"/compare?{query([whitened, source])}").text
    assert by_hand.index(f'/embeddings/{whitened}"') < by_hand.index(f'/embeddings/{source}"')
    assert '<input type="hidden" name="from" value="library">' in client.get("/embeddings").text


def refusal(sentence):
    return {"detail": sentence, "field": "id", "errors": [{"field": "id", "detail": sentence}]}


def test_compare_accepts_two_to_200_embeddings(client):
    for count in (0, 1, 201):
        ids = [str(i) for i in range(count)]
        for path in ("/api/compare", "/compare/measurements.csv", "/compare/figures/spectrum.csv"):
            answer = client.get(f"{path}?{query(ids)}")
            assert answer.status_code == 422
            if count or not path.startswith("/api"):
                assert answer.json() == refusal(f"Expected 2 to 200 embeddings to compare, got {count}.")
    answer = client.get(f"/compare?{query(ids)}")
    sentence = "Expected at most 200 embeddings, got 201. Leave some out."
    assert (answer.status_code, answer.json()) == (422, refusal(sentence))


def test_compare_rejects_duplicates_unknown_ids_and_drafts(client, context, pair):
    draft = add_embedding(context, "a draft", status=EmbeddingStatus.DRAFT)
    for path in ("/compare", "/api/compare"):
        for second_id, status, sentence in (
            (pair[0], 422, "The same embedding is listed twice. Remove one of them."),
            ("none", 404, "There is no embedding 'none'; it may have been deleted."),
            (draft, 409, "a draft is draft; a comparison needs a measured embedding."),
        ):
            answer = client.get(f"{path}?{query([pair[0], second_id])}")
            assert (answer.status_code, answer.json()["detail"]) == (status, sentence)


@pytest.mark.both_databases
def test_layers_are_grouped_by_encoding_below_uploads(client, context, pair):
    with context.sessions.begin() as session:
        session.merge(StoredFile(sha256="0" * 64, size_bytes=1))
        session.flush()
        encoding = Encoding(name="<sst2>", filename="x.csv", file_sha256="0" * 64, n_texts=400, columns=[])
        session.add(encoding)
    layer = add_embedding(context, "a layer", FIRST, encoding_id=encoding.id, layer=0, pooling=Pooling.MEAN)
    page = client.get(f"/compare?id={pair[0]}").text
    uploads, heading, layers = page.partition('<optgroup label="Layers of &lt;sst2&gt;">')
    assert heading
    assert f'<option value="{pair[1]}">' in uploads.partition('<optgroup label="Uploaded and made">')[2]
    assert f'<option value="{layer}">' in layers


@pytest.fixture
def series(client, context, work, module_cache):
    """Ids of the steps of a random walk. The last one moves six rows far away."""

    def named_csv(x):
        lines = ["word," + ",".join(f"e{i}" for i in range(D))]
        lines += [f"word {row}," + ",".join(f"{value:.6g}" for value in x[row]) for row in range(N)]
        return "\n".join(lines).encode()

    def measure():
        draw = np.random.default_rng(0)
        clouds = [draw.normal(size=(N, D))]
        for _ in range(3):
            clouds.append(clouds[-1] + 0.1 * draw.normal(size=(N, D)))
        clouds[-1][MOVED] *= -3
        files = [{"file": (f"step-{i}.csv", named_csv(x))} for i, x in enumerate(clouds)]
        ids = [client.post("/api/embeddings?commit=auto", files=file).json()["id"] for file in files]
        work()
        return " ".join(ids)

    return make_once(context, module_cache, "series", measure).split()


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


def ordered_csv(x, order):
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
    ids = upload(client, ordered_csv(x, range(300)), ordered_csv(x, order[:200]))
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
