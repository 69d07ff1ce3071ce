import html
import re
from datetime import UTC, datetime

import pytest
from sqlalchemy import func, select

from app.db.models import EmbeddingOrigin, EmbeddingStatus, Pooling
from tests.factories import add_embedding, add_encoding
from tests.queries import queries_of

YESTERDAY = datetime(2026, 1, 1, tzinfo=UTC)


def names_in(client, query=""):
    answer = client.get(f"/api/embeddings?{query}")
    names = [row["name"] for row in answer.json()]
    assert int(answer.headers["x-total-count"]) >= len(names)
    return names


def names_on(client, path):
    page = client.get(path)
    assert page.status_code == 200, page.text
    return [html.unescape(name) for name in re.findall(r'<th scope="row".*?<a href="[^"]*">(.*?)</a>', page.text)]


@pytest.fixture
def stored_embeddings(context):
    """Five embeddings, the last two not in the default list: one in the trash, one a layer."""
    add_embedding(context, "GloVe", {"isoscore": 0.2, "mean_cosine": 0.5}, ["Words"], filename="glove_100%.txt", n=900)
    bert = {"isoscore": 0.1, "mean_cosine": 0.7}
    add_embedding(context, "BERT cased", bert, ["BERT", "x_y"], notes="Été à\nParis", d=4)
    add_embedding(context, "a draft", status=EmbeddingStatus.DRAFT, created_at=YESTERDAY)
    add_embedding(context, "thrown away, BERT", trashed_at=YESTERDAY)
    layer = {"encoding_id": add_encoding(context), "layer": 3, "pooling": Pooling.MEAN}
    add_embedding(context, "BERT layer 3", origin=EmbeddingOrigin.ENCODED, **layer)


DEFAULT = ["BERT cased", "GloVe", "a draft"]
MATCHES = {
    "bert": ["BERT cased"], "GLOVE": ["GloVe"], "100%25": ["GloVe"], "%25": ["GloVe"], "x_y": ["BERT cased"],
    "xay": [], "_": ["BERT cased", "GloVe"], "paris cased": ["BERT cased"], "paris words": [], "words": ["GloVe"],
    "/": [], "'": [],
}  # fmt: skip
SORTED = {
    "name": ["a draft", "BERT cased", "GloVe"], "-name": ["GloVe", "BERT cased", "a draft"],
    "created": ["a draft", "GloVe", "BERT cased"], "isoscore": DEFAULT, "-isoscore": ["GloVe", "BERT cased", "a draft"],
    "-mean_cosine": DEFAULT, "-n": ["GloVe", "BERT cased", "a draft"], "d": DEFAULT,
}  # fmt: skip


@pytest.mark.usefixtures("stored_embeddings")
class TestSearch:
    @pytest.mark.both_databases
    def test_search_words_match_name_file_notes_or_tags(self, client, context):
        for q, names in MATCHES.items():
            assert sorted(names_in(client, f"q={q}")) == names, q
            assert sorted(names_on(client, f"/embeddings?q={q}")) == names, q
        with context.sessions() as session:
            folds_accents = session.scalar(select(func.lower("É"))) == "é"  # PostgreSQL in locale C does not
        for q in ("ÉTÉ À", "été À"):
            assert names_in(client, f"q={q}") == (["BERT cased"] if folds_accents else [])
        assert folds_accents or context.settings.database.startswith("postgresql")
        for tag in ("words", "WORDS"):
            assert names_in(client, f"tag={tag}") == ["GloVe"]
            assert names_in(client, f"tag={tag[:3]}") == []

    @pytest.mark.both_databases
    def test_sorting_puts_missing_values_last(self, client):
        for sort, names in SORTED.items():
            assert names_in(client, f"sort={sort}") == names, sort
            assert names_on(client, f"/embeddings?sort={sort}") == names, sort

    def test_trash_and_layers_are_listed_on_request(self, client):
        assert names_in(client) == names_on(client, "/embeddings") == DEFAULT
        assert names_in(client, "layers=true")[0] == "BERT layer 3"
        assert names_in(client, "origin=encoded") == ["BERT layer 3"]
        assert names_in(client, "origin=upload&q=bert") == ["BERT cased"]
        page = client.get("/embeddings?q=bert").text
        assert "1 layer of encodings is not listed." in page
        assert 'href="/embeddings?q=bert&amp;layers=true"' in page
        assert names_in(client, "trashed=true") == ["thrown away, BERT"]

    def test_headings_show_and_reverse_sorting(self, client):
        page = " ".join(client.get("/embeddings?q=e&sort=-isoscore_unbiased").text.split())
        assert 'aria-sort="descending"> <a href="/embeddings?q=e&amp;sort=isoscore_unbiased">IsoScore</a>' in page
        assert '<a href="/embeddings?q=e&amp;sort=name">Name</a>' in page
        assert page.count('aria-sort="none"') == 5
        page = client.get("/embeddings").text
        assert page.count('type="checkbox" name="id"') == 3
        assert '<form class="bare" method="get" action="/compare">' in page
        page = " ".join(client.get("/embeddings?q=none here").text.split())
        assert 'No embedding found that mentions none and here. <a href="/embeddings">Show all</a>' in page

    def test_invalid_query_is_rejected_with_link_without_it(self, client):
        for query in ("sort=size", "origin=elsewhere", "page=0", f"q={'x' * 201}", "layers=maybe"):
            assert client.get(f"/embeddings?{query}", headers={"accept": "text/html"}).status_code == 422, query
        page = client.get("/embeddings?q=a%26b&sort=foo", headers={"accept": "text/html"}).text
        assert "Expected sort as " in page
        assert "got &#39;foo&#39;." in page
        assert '<a href="/embeddings?q=a%26b">Open the page without it</a>' in page
        page = client.get("/embeddings?page=0", headers={"accept": "text/html"}).text
        assert "Expected page of at least 1, got 0." in page
        assert '<a href="/embeddings">Open the page without it</a>' in page
        for query in ("limit=0", "limit=501", "offset=-1", "offset=99999999999999999999", "sort=x"):
            answer = client.get(f"/api/embeddings?{query}")
            assert (answer.status_code, answer.json()["field"]) == (422, query.partition("=")[0])


def test_api_returns_scores_tags_and_provenance(client, context):
    source = add_embedding(context, "raw", {"isoscore": 0.5, "mean_cosine": 0.25}, ["BERT", "b"])
    derived = add_embedding(context, "made", tags=["a", "bert"], source_id=source, provenance={"method": "centring"})
    encoding = add_encoding(context)
    layer = add_embedding(context, "layer", encoding_id=encoding, layer=3, pooling=Pooling.MEAN)
    listed = {row["name"]: row for row in client.get("/api/embeddings").json()}
    assert (listed["raw"]["isoscore"], listed["raw"]["mean_cosine"]) == (0.5, 0.25)
    assert (listed["made"]["isoscore"], listed["made"]["mean_cosine"]) == (None, None)
    assert [row.lower() for row in client.get("/api/tags").json()] == ["a", "b", "bert"]
    keys = ("provenance", "source_id", "encoding_id", "layer", "pooling")
    origins = [[client.get(f"/api/embeddings/{row}").json()[key] for key in keys] for row in (source, derived, layer)]
    assert origins == [
        [None] * 5,
        [{"method": "centring"}, source, None, None, None],
        [None, None, encoding, 3, "mean"],
    ]


def test_number_of_queries_is_constant_and_pages_have_fifty(client, context):
    paths = ("/embeddings?q=cloud&tag=t", "/api/embeddings?limit=500", "/trash", "/")

    def queries(path):
        selects = queries_of(context, lambda: client.get(path).raise_for_status())
        return len([statement for statement, _ in selects if statement.startswith("SELECT")])

    def fill(numbers):
        for number in numbers:
            for gone in ({}, {"trashed_at": YESTERDAY}):
                tags = ["t", f"t{number}"]
                add_embedding(context, f"cloud {number:02}", {"isoscore": 0.5}, tags, [bytes([number])], **gone)

    fill(range(3))
    small = [queries(path) for path in paths]
    fill(range(3, 60))
    assert [queries(path) for path in paths] == small
    assert 2 <= min(small) <= max(small) <= 20
    first = " ".join(client.get("/embeddings?sort=name&q=cloud").text.split())
    assert "60 embeddings, 1 to 50 shown." in first
    assert 'rel="next" href="/embeddings?q=cloud&amp;sort=name&amp;page=2"' in first
    for page in (2, 99999999999999999999):
        assert names_on(client, f"/embeddings?sort=name&page={page}") == [f"cloud {number}" for number in range(50, 60)]
    answer = client.get("/api/embeddings?sort=name&limit=3&offset=58")
    assert ([row["name"] for row in answer.json()], answer.headers["x-total-count"]) == (["cloud 58", "cloud 59"], "60")


REFUSED = [
    ({"name": " \t"}, "name", "The name has no visible characters. Enter a name."),
    ({"name": "x" * 201}, "name",
     "Expected a name of at most 200 characters, got 201. Shorten it, or write it into the notes."),
    ({"notes": "x" * 10_001}, "notes", "Expected notes of at most 10,000 characters, got 10,001. Shorten them."),
    ({"tags": ["a,b"]}, "tags", "Tags cannot contain commas, because commas separate tags. Got 'a,b'."),
    ({"tags": [f"{i}" for i in range(21)]}, "tags", "Expected at most 20 tags, got 21. Leave some out."),
]  # fmt: skip


class TestDescription:
    def test_patch_changes_given_fields_only(self, client, context):
        path = f"/api/embeddings/{add_embedding(context, 'old', tags=['former', 'kept'])}"
        answer = client.patch(path, json={"name": "  new\tname ", "notes": "one\r\ntwo  \n", "tags": ["Kept", "kept"]})
        assert answer.status_code == 200
        changed = client.get(path).json()
        assert (changed["name"], changed["notes"], changed["tags"]) == ("new name", "one\ntwo", ["Kept"])
        client.patch(path, json={"tags": ["b", "Kept", "a"]})
        changed = client.get(path).json()
        assert (changed["name"], changed["notes"], changed["tags"]) == ("new name", "one\ntwo", ["a", "b", "Kept"])
        assert client.patch(path, json={"name": None}).json()["name"] == "new name"

    def test_invalid_description_is_rejected_at_its_field(self, client, context):
        path = f"/api/embeddings/{add_embedding(context, 'old')}"
        for change, field, sentence in REFUSED:
            answer = client.patch(path, json={"notes": "new"} | change)
            refused = answer.json()
            assert (answer.status_code, refused["detail"], refused["field"]) == (422, sentence, field)
        assert (client.get(path).json()["name"], client.get(path).json()["notes"]) == ("old", "")
        assert client.patch("/api/embeddings/none", json={"name": "x"}).status_code == 404
        answer = client.patch(path, json={"color": "red"})
        assert (answer.status_code, answer.json()["field"]) == (422, "color")

    @pytest.mark.both_databases
    def test_unstorable_characters_are_dropped(self, client, context):
        path = f"/api/embeddings/{add_embedding(context)}"
        body = '{"name": "a\\u0000b", "notes": "a\\u0000b\\ud800\\tc", "tags": ["a\\u0000b", "\\ud800"]}'
        changed = client.patch(path, content=body, headers={"Content-Type": "application/json"}).json()
        assert (changed["name"], changed["notes"], changed["tags"]) == ("a b", "a b \tc", ["a b"])

    def test_form_suggests_tags_and_page_escapes_description(self, client, context):
        page = f"/embeddings/{add_embedding(context, 'old', tags=['former'])}"
        add_embedding(context, "other", tags=["Known"])
        assert '<option value="Known">' in client.get(f"{page}/description").text
        assert 'value="old"' in client.get(f"{page}/description").text
        form = {"name": "New", "tags": "BERT, <b>, bert", "notes": "one <b>\ntwo"}
        assert client.post(f"{page}/description", data=form).headers["location"] == page
        page_text = client.get(page).text
        assert "one &lt;b&gt;\ntwo</p>" in page_text
        assert 'href="/embeddings?tag=BERT"' in page_text
        assert 'href="/embeddings?tag=%3Cb%3E"' in page_text
        assert "former" not in page_text
