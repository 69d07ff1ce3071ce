"""Saved views: pages and API, from a form to the page that is shown again."""

import html
import re
from urllib.parse import urlencode

import pytest

TOO_LONG = (
    "Expected a query of at most 64,000 characters, got {}. Choose fewer things, or search for them instead of naming "
    "each."
)
EXPERIMENT = "0123456789abcdef" * 2


def save(client, path="/compare/runs", query="q=lam%3C0", name="Below zero"):
    return client.post("/api/views", json={"name": name, "path": path, "query": query})


def test_a_view_leads_to_its_page_with_its_query(client):
    kept = save(client, query="?q=lam%3C0&group=model&group=lam").json()
    assert (kept["name"], kept["path"], kept["query"]) == (
        "Below zero",
        "/compare/runs",
        "q=lam%3C0&group=model&group=lam",
    )
    assert len(kept["id"]) == 8
    answer = client.get(f"/v/{kept['id']}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/compare/runs?q=lam%3C0&group=model&group=lam")
    assert client.get(f"/api/views/{kept['id']}").json() == kept


@pytest.mark.both_databases
def test_the_form_keeps_what_the_page_shows_and_the_list_has_it_first(client):
    save(client, name="Earlier")
    answer = client.post("/views", data={"name": " <b>A</b>\nview ", "path": "/measures", "query": ""})
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/views?saved=")
    page = client.get(answer.headers["location"]).text
    view_id = answer.headers["location"].removeprefix("/views?saved=")
    assert f'<a href="/v/{view_id}">http://localhost/v/{view_id}</a>' in page
    assert "Saved: &lt;b&gt;A&lt;/b&gt; view." in page
    assert client.get(f"/v/{view_id}").headers["location"] == "/measures"
    assert [one["name"] for one in client.get("/api/views").json()] == ["<b>A</b> view", "Earlier"]
    assert [one["name"] for one in client.get("/api/views?limit=1&offset=1").json()] == ["Earlier"]


@pytest.mark.both_databases
def test_a_state_of_many_thousand_characters_comes_back_whole(client):
    query = urlencode([("id", f"{n:032x}") for n in range(1500)])
    assert len(query) > 50_000
    kept = save(client, path="/compare", query=query).json()
    assert client.get(f"/v/{kept['id']}").headers["location"] == f"/compare?{query}"


PAGES = (
    "/experiments", f"/experiments/{EXPERIMENT}", "/compare", "/compare/runs", "/compare/runs/list", "/measures",
    "/playground", "/embeddings", f"/embeddings/{EXPERIMENT}", f"/encodings/{EXPERIMENT}", f"/runs/{EXPERIMENT}",
)  # fmt: skip
NO_PAGES = (
    "", "measures", "//evil.example", "//evil.example/measures", "/\\evil.example", "https://evil.example/measures",
    "javascript:alert(1)", "/v/abcdefgh", "/views", "/login", "/api/views", "/measures/", "/measures?x=1",
    "/measures#x", "/measures\n", "/measures\r\nSet-Cookie: a=b", f"/experiments/{EXPERIMENT}/delete",
    f"/experiments/{EXPERIMENT}/cancel",
    "/experiments/..", "/experiments/new", "/static/app.css", "/Measures", "/compare/runs/../../login",
)  # fmt: skip


def test_pages_with_a_state_can_be_kept(client):
    assert [path for path in PAGES if save(client, path=path).status_code != 201] == []


def test_no_other_address_is_kept(client):
    for path in NO_PAGES:
        answer = save(client, path=path)
        assert answer.status_code == 422, path
        assert answer.json()["field"] == "path"
        assert answer.json()["detail"] == (
            f"Expected the path of a page that has views, such as /compare/runs, got {path!r}. "
            "Save the view on the page itself."
        )
    assert client.get("/api/views").json() == []


def test_a_query_cannot_end_the_address_or_begin_another(client):
    kept = save(client, query="a=1\r\nLocation: https://evil.example#x&b=é&c").json()
    assert kept["query"] == "a=1%0D%0ALocation%3A+https%3A%2F%2Fevil.example%23x&b=%C3%A9&c="
    answer = client.get(f"/v/{kept['id']}")
    assert answer.headers["location"] == f"/compare/runs?{kept['query']}"


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("q=" + "a" * 63_999, TOO_LONG.format("64,001")),
        ("q=" + "é" * 20_000, TOO_LONG.format("120,002")),
        ("q=%00", "Expected a query without a NUL character (%00); no page reads one."),
        ("q=\0", "Expected a query without a NUL character (%00); no page reads one."),
    ],
)  # fmt: skip
def test_a_query_that_cannot_be_kept_says_why(client, query, told):
    answer = save(client, query=query)
    assert (answer.status_code, answer.json()["detail"], answer.json()["field"]) == (422, told, "query")


def test_the_longest_query_is_kept(client):
    assert save(client, query="q=" + "a" * 63_998).status_code == 201


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (" \n", "Expected a name for the view, got none. Describe what the view shows."),
        ("a" * 201, "Expected a name of at most 200 characters, got 201. Shorten it."),
    ],
)
def test_a_view_has_a_name(client, name, told):
    refused = save(client, name=name).json()
    assert (refused["detail"], refused["field"]) == (told, "name")
    page = client.post("/views", data={"name": name, "path": "/measures"}, headers={"accept": "text/html"})
    assert page.status_code == 422
    assert told in html.unescape(page.text)


def test_the_list_of_views_is_stacked_where_it_is_narrow_so_that_each_can_be_deleted(client):
    kept = save(client).json()
    page = client.get("/views").text
    assert ('<table class="stacked">' in page, f'href="/views/{kept["id"]}/delete"' in page) == (True, True)
    assert re.findall('data-label="(.*?)"', page) == ["Saved"]


@pytest.mark.both_databases
def test_a_view_is_deleted_after_being_asked(client):
    kept = save(client).json()
    question = client.get(f"/views/{kept['id']}/delete").text
    assert "Delete Below zero?" in question
    assert client.post(f"/views/{kept['id']}/delete").headers["location"] == "/views"
    gone = f"There is no view '{kept['id']}'; it may have been deleted."
    for answer in (
        client.get(f"/v/{kept['id']}"), client.get(f"/api/views/{kept['id']}"),
        client.delete(f"/api/views/{kept['id']}"),
        client.post(f"/views/{kept['id']}/delete"), client.get(f"/views/{kept['id']}/delete"),
    ):  # fmt: skip
        assert answer.status_code == 404
        assert gone in html.unescape(answer.text)


def test_a_view_of_another_site_is_not_saved(client):
    answer = client.post("/views", data={"name": "x", "path": "/measures"}, headers={"origin": "https://evil.example"})
    assert answer.status_code == 403
    assert client.get("/api/views").json() == []


def test_a_page_offers_to_keep_itself_with_its_query(client):
    page = html.unescape(client.get("/measures?x=1&y=<").text)
    assert '<input type="hidden" name="path" value="/measures">' in page
    assert '<input type="hidden" name="query" value="x=1&y=%3C">' in page
    assert 'name="name" value="Measures"' in page


def test_where_nothing_is_saved_the_list_says_how(client):
    assert "No saved views yet." in client.get("/views").text
    assert client.delete(f"/api/views/{save(client).json()['id']}").status_code == 204
