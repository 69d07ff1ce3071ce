import csv
import html
import io
from urllib.parse import urlencode

import pytest

from app.core.evidence import block_degrees, t_quantile
from app.db.models import EmbeddingStatus, Encoding, FigureData, Pooling, StoredFile
from tests.factories import add_embedding
from tests.queries import queries_of

FIRST = {"isoscore_unbiased": (0.5, 0.03), "mean_cosine": (0.25, 0.01), "stable_rank": 2.0}
SECOND = {"isoscore_unbiased": (0.7, 0.04), "mean_cosine": (0.26, 0.01), "stable_rank": 3.0}


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
