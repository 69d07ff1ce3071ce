import time

import pytest

from tests.archives import add_experiment

HTMX = {"HX-Request": "true", "Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def path(context):
    return f"/experiments/{add_experiment(context)}"


def rename(client, path, name, *, by_script=False):
    if by_script:
        assert client.patch(f"/api{path}", json={"name": name}).status_code == 200
    else:
        assert client.post(f"{path}/description", data={"name": name}, headers=HTMX).status_code == 303


def test_polls_share_an_answer_until_it_expires(client, path, monkeypatch):
    monkeypatch.setattr("app.web.polls.SHARED_SECONDS", 60.0)
    first = client.get(path, headers=HTMX)
    rename(client, path, "by a script", by_script=True)
    assert client.get(path, headers=HTMX).content == first.content
    assert "by a script" in client.get(path).text, "opening the page renders it anew"
    monkeypatch.setattr("app.web.polls.SHARED_SECONDS", 0.1)
    client.get(f"{path}?tab=runs", headers=HTMX)
    rename(client, path, "again", by_script=True)
    time.sleep(0.2)
    assert "again" in client.get(f"{path}?tab=runs", headers=HTMX).text


def test_polls_do_not_mix_addresses_or_encodings_and_see_changes(client, path, monkeypatch):
    monkeypatch.setattr("app.web.polls.SHARED_SECONDS", 60.0)
    page, plain, runs = (
        client.get(path, headers=HTMX),
        client.get(path, headers=HTMX | {"Accept-Encoding": "identity"}),
        client.get(path, params={"tab": "runs"}, headers=HTMX),
    )
    assert (page.headers["content-encoding"], plain.headers.get("content-encoding")) == ("gzip", None)
    assert len({page.text, runs.text}) == 2
    again = client.get(path, headers=HTMX)
    assert (again.content, dict(again.headers)) == (page.content, dict(page.headers))
    client.get(path, headers=HTMX)
    rename(client, path, "on the page")
    assert "on the page" in client.get(path, headers=HTMX).text


def test_pages_are_private_and_static_files_public(client, path):
    for address in (path, f"/api{path}", "/nowhere"):
        assert client.get(address).headers["cache-control"] == "private, no-cache"
    assert client.get("/static/app.css").headers["cache-control"] == "public"
