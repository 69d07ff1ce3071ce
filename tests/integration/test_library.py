"""The library: what is found by which words, in which order, in how many queries; names, notes and tags."""

import html
import re
from datetime import UTC, datetime

import pytest
from sqlalchemy import event, func, select

from app.db.models import EmbeddingOrigin, EmbeddingStatus, Pooling
from tests.factories import add_embedding, add_encoding

YESTERDAY = datetime(2026, 1, 1, tzinfo=UTC)


def names_in(client, query=""):
    answer = client.get(f"/api/embeddings?{query}")
    names = [row["name"] for row in answer.json()]
    assert int(answer.headers["x-total-count"]) >= len(names)
    return names


def names_on(client, path):
    """The names in a page's table, in its order."""
    page = client.get(path)
    assert page.status_code == 200, page.text
    return [html.unescape(name) for name in re.findall(r'<th scope="row".*?<a href="[^"]*">(.*?)</a>', page.text)]


@pytest.fixture
def shelf(context):
    """Five embeddings, the last two not in the default list: one in the trash, one a layer."""
    add_embedding(context, "GloVe", {"isoscore": 0.2, "mean_cosine": 0.5}, ["Words"], filename="glove_100%.txt", n=900)
    add_embedding(
        context, "BERT cased", {"isoscore": 0.1, "mean_cosine": 0.7}, ["BERT", "x_y"], notes="Été à\nParis", d=4
    )
    add_embedding(context, "a draft", status=EmbeddingStatus.DRAFT, created_at=YESTERDAY)
    add_embedding(context, "thrown away, BERT", trashed_at=YESTERDAY)
    layer = {
        "encoding_id": add_encoding(context),
        "layer": 3,
        "pooling": Pooling.MEAN,
        "origin": EmbeddingOrigin.ENCODED,
    }
    add_embedding(context, "BERT layer 3", **layer)


@pytest.mark.usefixtures("shelf")
class TestSearch:
    def test_by_default_all_but_trash_and_layers_the_newest_first(self, client):
        assert names_in(client) == ["BERT cased", "GloVe", "a draft"]
        assert names_on(client, "/embeddings") == ["BERT cased", "GloVe", "a draft"]

    @pytest.mark.parametrize(
        ("q", "names"),
        [
            ("bert", ["BERT cased"]),
            ("GLOVE", ["GloVe"]),
            ("100%25", ["GloVe"]),
            ("%25", ["GloVe"]),
            ("x_y", ["BERT cased"]),
            ("xay", []),
            ("_", ["GloVe", "BERT cased"]),
            ("paris cased", ["BERT cased"]),
            ("paris words", []),
            ("words", ["GloVe"]),
            ("/", []),
            ("'", []),
        ],
    )
    @pytest.mark.both_databases
    def test_every_word_is_part_of_a_name_file_note_or_tag(self, client, q, names):
        assert sorted(names_in(client, f"q={q}")) == sorted(names)
        assert sorted(names_on(client, f"/embeddings?q={q}")) == sorted(names)

    @pytest.mark.both_databases
    def test_case_does_not_matter_of_all_letters_that_the_database_knows(self, client, context):
        with context.sessions() as session:
            knows = session.scalar(select(func.lower("É"))) == "é"  # PostgreSQL in the locale C knows A to Z
        assert names_in(client, "q=ÉTÉ À") == (["BERT cased"] if knows else [])
        assert names_in(client, "q=été À") == (["BERT cased"] if knows else [])
        assert knows or context.settings.database.startswith("postgresql")

    @pytest.mark.parametrize("tag", ["words", "WORDS"])
    @pytest.mark.both_databases
    def test_a_tag_is_found_whatever_its_case(self, client, tag):
        assert names_in(client, f"tag={tag}") == ["GloVe"]
        assert names_in(client, f"tag={tag[:3]}") == []

    def test_layers_are_listed_where_they_are_asked_for(self, client):
        assert names_in(client, "layers=true")[0] == "BERT layer 3"
        assert names_in(client, "origin=encoded") == ["BERT layer 3"]
        assert names_in(client, "origin=upload&q=bert") == ["BERT cased"]
        page = client.get("/embeddings?q=bert").text
        assert "1 layer of encodings is not listed." in page
        assert 'href="/embeddings?q=bert&amp;layers=true"' in page

    def test_the_trash_alone_is_listed_where_it_is_asked_for(self, client):
        assert names_in(client, "trashed=true") == ["thrown away, BERT"]

    @pytest.mark.parametrize(
        ("sort", "names"),
        [
            ("name", ["a draft", "BERT cased", "GloVe"]),
            ("-name", ["GloVe", "BERT cased", "a draft"]),
            ("created", ["a draft", "GloVe", "BERT cased"]),
            ("isoscore", ["BERT cased", "GloVe", "a draft"]),
            ("-isoscore", ["GloVe", "BERT cased", "a draft"]),
            ("-mean_cosine", ["BERT cased", "GloVe", "a draft"]),
            ("-n", ["GloVe", "BERT cased", "a draft"]),
            ("d", ["BERT cased", "GloVe", "a draft"]),
        ],
    )
    @pytest.mark.both_databases
    def test_sorted_by_a_column_what_has_no_value_comes_last(self, client, sort, names):
        assert names_in(client, f"sort={sort}") == names
        assert names_on(client, f"/embeddings?sort={sort}") == names

    def test_headings_say_how_the_list_is_sorted_and_turn_it_round(self, client):
        page = " ".join(client.get("/embeddings?q=e&sort=-isoscore_unbiased").text.split())
        assert 'aria-sort="descending"> <a href="/embeddings?q=e&amp;sort=isoscore_unbiased">IsoScore</a>' in page
        assert '<a href="/embeddings?q=e&amp;sort=name">Name</a>' in page
        assert page.count('aria-sort="none"') == 5

    @pytest.mark.parametrize("query", ["sort=size", "origin=elsewhere", "page=0", f"q={'x' * 201}", "layers=maybe"])
    def test_what_no_list_can_be_of_is_refused(self, client, query):
        assert client.get(f"/embeddings?{query}", headers={"accept": "text/html"}).status_code == 422

    def test_a_parameter_that_is_refused_is_told_plainly_and_the_rest_of_the_address_is_offered(self, client):
        page = client.get("/embeddings?q=a%26b&sort=foo", headers={"accept": "text/html"}).text
        assert "Expected sort as " in page
        assert "got &#39;foo&#39;." in page
        assert '<a href="/embeddings?q=a%26b">Open the page without it</a>' in page
        answer = client.get("/embeddings?page=0", headers={"accept": "text/html"}).text
        assert "Expected page of at least 1, got 0." in answer
        assert '<a href="/embeddings">Open the page without it</a>' in answer

    @pytest.mark.parametrize("query", ["limit=0", "limit=501", "offset=-1", "offset=99999999999999999999", "sort=x"])
    def test_what_no_list_can_be_of_is_refused_over_the_api(self, client, query):
        answer = client.get(f"/api/embeddings?{query}")
        assert (answer.status_code, answer.json()["field"]) == (422, query.partition("=")[0])

    def test_nothing_found_says_so_and_how_to_see_all(self, client):
        page = " ".join(client.get("/embeddings?q=none here").text.split())
        assert 'No embedding found that mentions none and here. <a href="/embeddings">Show all</a>' in page

    def test_what_is_chosen_is_offered_to_be_compared(self, client):
        page = client.get("/embeddings").text
        assert page.count('type="checkbox" name="id"') == 3
        assert '<form class="bare" method="get" action="/compare">' in page


def test_pages_of_fifty_and_the_total_is_told(client, context):
    for number in range(60):
        add_embedding(context, f"cloud {number:02}")
    first = " ".join(client.get("/embeddings?sort=name&q=cloud").text.split())
    assert "60 embeddings, 1 to 50 shown." in first
    assert 'rel="next" href="/embeddings?q=cloud&amp;sort=name&amp;page=2"' in first
    assert names_on(client, "/embeddings?sort=name&page=2") == [f"cloud {number}" for number in range(50, 60)]
    assert names_on(client, "/embeddings?sort=name&page=99999999999999999999") == [f"cloud {n}" for n in range(50, 60)]
    answer = client.get("/api/embeddings?sort=name&limit=3&offset=58")
    assert ([row["name"] for row in answer.json()], answer.headers["x-total-count"]) == (["cloud 58", "cloud 59"], "60")


def test_the_api_tells_the_numbers_it_sorts_by_all_tags_and_where_an_embedding_is_from(client, context):
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


@pytest.mark.parametrize("path", ["/embeddings?q=cloud&tag=t", "/api/embeddings?limit=500", "/trash", "/"])
def test_as_many_queries_for_sixty_as_for_three(client, context, path):
    def queries():
        counted = []
        engine = context.sessions.kw["bind"]
        inner = client.app.state.context.sessions.kw["bind"]
        for bind in {engine, inner}:
            event.listen(bind, "before_cursor_execute", lambda *arguments: counted.append(arguments[2]))
        assert client.get(path).status_code == 200
        for bind in {engine, inner}:
            bind.dispatch.before_cursor_execute.clear()
        return [query for query in counted if query.startswith("SELECT")]

    def fill(count):
        for number in range(count):
            gone = {"trashed_at": YESTERDAY} if path == "/trash" else {}
            add_embedding(context, f"cloud {number}", {"isoscore": 0.5}, ["t", f"t{number}"], [bytes([number])], **gone)

    fill(3)
    small = queries()
    fill(57)
    large = queries()
    assert 2 <= len(small) == len(large) <= 10


class TestDescription:
    def test_name_notes_and_tags_are_changed_and_the_rest_stays(self, client, context):
        path = f"/api/embeddings/{add_embedding(context, 'old', tags=['former', 'kept'])}"
        answer = client.patch(path, json={"name": "  new\tname ", "notes": "one\r\ntwo  \n", "tags": ["Kept", "kept"]})
        assert answer.status_code == 200
        changed = client.get(path).json()
        assert (changed["name"], changed["notes"], changed["tags"]) == ("new name", "one\ntwo", ["Kept"])
        client.patch(path, json={"tags": ["b", "Kept", "a"]})
        changed = client.get(path).json()
        assert (changed["name"], changed["notes"], changed["tags"]) == ("new name", "one\ntwo", ["a", "b", "Kept"])
        assert client.patch(path, json={"name": None}).json()["name"] == "new name"

    @pytest.mark.parametrize(
        ("change", "field", "sentence"),
        [
            ({"name": " \t"}, "name", "Expected a name, got nothing that can be read. Type one."),
            ({"name": "x" * 201}, "name", "Expected a name of at most 200 characters, got 201. Shorten it, "
             "or write it into the notes."),
            ({"notes": "x" * 10_001}, "notes", "Expected notes of at most 10,000 characters, got 10,001. "
             "Shorten them."),
            ({"tags": ["a,b"]}, "tags", "Expected tags without commas, which part tags on the page; got 'a,b'."),
            ({"tags": [f"{i}" for i in range(21)]}, "tags", "Expected at most 20 tags, got 21. Leave some out."),
        ],
    )  # fmt: skip
    def test_what_cannot_be_kept_is_told_at_its_field_and_changes_nothing(
        self, client, context, change, field, sentence
    ):
        path = f"/api/embeddings/{add_embedding(context, 'old')}"
        answer = client.patch(path, json={"notes": "new"} | change)
        answer_json = answer.json()
        assert (answer.status_code, answer_json["detail"], answer_json["field"]) == (422, sentence, field)
        assert (client.get(path).json()["name"], client.get(path).json()["notes"]) == ("old", "")

    @pytest.mark.both_databases
    def test_what_no_database_can_keep_is_left_out(self, client, context):
        path = f"/api/embeddings/{add_embedding(context)}"
        body = '{"name": "a\\u0000b", "notes": "a\\u0000b\\ud800\\tc", "tags": ["a\\u0000b", "\\ud800"]}'
        changed = client.patch(path, content=body, headers={"Content-Type": "application/json"}).json()
        assert (changed["name"], changed["notes"], changed["tags"]) == ("a b", "a b \tc", ["a b"])

    def test_an_unknown_embedding_or_key_is_refused(self, client, context):
        assert client.patch("/api/embeddings/none", json={"name": "x"}).status_code == 404
        answer = client.patch(f"/api/embeddings/{add_embedding(context)}", json={"colour": "red"})
        assert (answer.status_code, answer.json()["field"]) == (422, "colour")

    def test_the_form_keeps_what_it_says(self, client, context):
        page = f"/embeddings/{add_embedding(context, 'old', tags=['former'])}"
        add_embedding(context, "other", tags=["Known"])
        assert '<option value="Known">' in client.get(f"{page}/description").text
        form = {"name": "New", "tags": "BERT, <b>, bert", "notes": "one <b>\ntwo"}
        assert client.post(f"{page}/description", data=form).headers["location"] == page
        names_on = client.get(page).text
        assert "one &lt;b&gt;\ntwo</p>" in names_on
        assert 'href="/embeddings?tag=BERT"' in names_on
        assert 'href="/embeddings?tag=%3Cb%3E"' in names_on
        assert "former" not in names_on

    def test_a_wrong_form_comes_back_filled_in_with_the_sentence_at_its_field(self, client, context):
        page = f"/embeddings/{add_embedding(context, 'old')}"
        answer = client.post(f"{page}/description", data={"name": "new", "tags": "y" * 41, "notes": "n"})
        assert answer.status_code == 422
        assert f"Expected tags of at most 40 characters, got &#39;{'y' * 41}&#39; of 41." in answer.text
        assert 'aria-describedby="tags-help tags-error" aria-invalid="true"' in answer.text
        assert 'value="new"' in answer.text
        assert "\nn</textarea>" in answer.text
        assert 'value="old"' in client.get(f"{page}/description").text
