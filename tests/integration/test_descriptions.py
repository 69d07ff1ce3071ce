import re
from typing import NamedTuple

import pytest

from app.db.models import EmbeddingStatus, RunStatus
from app.training.experiments import get_experiment
from tests.factories import add_embedding, add_experiment, run_row


class Kind(NamedTuple):
    path: str
    field: str

    def add(self, context, name, **columns):
        if self.path == "/embeddings":
            return add_embedding(context, name, **columns)
        return add_experiment(context, run_row(), name=name, **columns)

    def row(self, client, row_id):
        return client.get(f"/api{self.path}/{row_id}").json()

    def list_names(self, client, query=""):
        page = client.get(f"{self.path}{query}").text
        return re.findall(r'<th scope="row".*?<a href="[^"]*">(.*?)</a>', page)


KINDS = [Kind("/embeddings", "id"), Kind("/experiments", "experiment")]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.path[1:])
def kind(request):
    return request.param


def test_form_changes_description_and_keeps_absent_fields(client, context, kind):
    row_id = kind.add(context, "first")
    page, form = f"{kind.path}/{row_id}", f"{kind.path}/{row_id}/description"
    assert f'href="{form}"' in client.get(page).text
    for field, value in (("name", " "), ("name", "x" * 201), ("tags", "x" * 41), ("notes", "x" * 10_001)):
        response = client.post(form, data={"notes": "typed", field: value})
        assert response.status_code == 422
        assert f'id="{field}-error"' in response.text
        assert ("typed" in response.text) == (field != "notes")
    assert kind.row(client, row_id)["notes"] == ""
    response = client.post(form, data={"name": " New  name ", "notes": "line\r\nline", "tags": "b, A,, B"})
    assert (response.status_code, response.headers["location"]) == (303, page)
    row = kind.row(client, row_id)
    assert (row["name"], row["notes"], row["tags"]) == ("New name", "line\nline", ["A", "b"])
    assert "line\nline" in client.get(page).text
    client.post(form, data={"notes": ""})
    row = kind.row(client, row_id)
    assert (row["name"], row["notes"], row["tags"]) == ("New name", "", ["A", "b"])
    assert client.patch(f"/api{page}", json={"tags": ["x"]}).json()["tags"] == ["x"]
    row = client.patch(f"/api{page}", json={"notes": "y", "name": None}).json()
    assert (row["tags"], row["name"], row["notes"]) == (["x"], "New name", "y")
    assert client.patch(f"/api{page}", json={"color": "red"}).status_code == 422


@pytest.mark.both_databases
def test_lists_filter_by_tag_ignoring_case(client, context, kind):
    ids = {name: kind.add(context, name) for name in ("plain", "tagged")}
    client.patch(f"/api{kind.path}/{ids['tagged']}", json={"tags": ["Good"]})
    assert set(kind.list_names(client)) == {"plain", "tagged"}
    assert kind.list_names(client, "?tag=good") == ["tagged"]
    assert [row["name"] for row in client.get(f"/api{kind.path}?tag=GOOD").json()] == ["tagged"]
    assert client.get("/api/tags").json() == ["Good"]


def act(client, kind, action, *ids, **fields):
    data = {kind.field: list(ids), "action": action} | fields
    return client.post(f"{kind.path}/actions", data=data, follow_redirects=False)


def test_unknown_action_and_action_without_rows_are_refused(client, context, kind):
    row_id = kind.add(context, "a")
    for action, message in (("", "Choose one of the actions."), ("star", "Choose one of the")):
        response = act(client, kind, action, row_id)
        assert (response.status_code, message in response.text) == (422, True)
    response = act(client, kind, "trash" if kind is KINDS[0] else "cancel")
    assert (response.status_code, "No row is selected." in response.text) == (422, True)


def test_deletion_asks_first_and_names_refused_rows(client, context):
    kind = KINDS[1]
    done, busy = kind.add(context, "done"), add_experiment(context, run_row(status=RunStatus.RUNNING), name="busy")
    assert "cannot be undone" in act(client, kind, "delete", done, busy).text
    assert kind.row(client, done)["name"] == "done"
    response = act(client, kind, "delete", done, busy, confirmed="yes")
    assert response.status_code == 409
    assert "1 done, 1 refused." in response.text
    assert "busy: 1 of its runs has not ended. Cancel it before" in response.text
    assert client.get(f"/api/experiments/{done}").status_code == 404


def test_selected_experiments_are_cancelled_and_retried(client, context):
    busy = add_experiment(context, run_row(status=RunStatus.QUEUED), name="busy")
    failed = add_experiment(context, run_row(status=RunStatus.FAILED, error="x"), run_row(seed=1), name="failed")
    act(client, KINDS[1], "cancel", busy, failed)
    act(client, KINDS[1], "retry", failed)
    statuses = [[run.status for run in get_experiment(context, row_id).runs] for row_id in (busy, failed)]
    assert statuses == [[RunStatus.CANCELLED], [RunStatus.QUEUED, RunStatus.FINISHED]]


def test_bulk_actions_measure_drafts_and_trash_embeddings(client, context):
    draft, ready, failed = (
        add_embedding(context, status.value, status=status)
        for status in (EmbeddingStatus.DRAFT, EmbeddingStatus.READY, EmbeddingStatus.FAILED)
    )
    assert KINDS[0].list_names(client, "?status=failed") == ["failed"]
    assert [row["name"] for row in client.get("/api/embeddings?status=draft").json()] == ["draft"]
    assert client.get("/embeddings?status=nonsense").status_code == 422
    response = act(client, KINDS[0], "measure", draft, ready)
    assert "1 done, 1 refused." in response.text
    assert "ready: Only a draft can be measured; this embedding is ready." in response.text
    assert client.get(f"/api/embeddings/{draft}").json()["status"] == "measuring"
    response = act(client, KINDS[0], "trash", ready, failed, query="tag=x&page=1")
    assert (response.status_code, response.headers["location"]) == (303, "/embeddings?tag=x&page=1")
    assert KINDS[0].list_names(client) == ["draft"]
    assert client.get("/api/trash").json()["total"] == 2


def test_retry_button_restarts_failed_runs_launched_here(client, context):
    failed, imported = (
        add_experiment(context, run_row(status=RunStatus.FAILED, error="x"), run_row(seed=1), name=name, **columns)
        for name, columns in (("failed", {}), ("elsewhere", {"origin": "imported"}))
    )
    button = f'action="/experiments/{failed}/retry"'
    assert button in client.get(f"/experiments/{failed}").text
    client.post(f"/experiments/{failed}/retry")
    assert button not in client.get(f"/experiments/{failed}").text
    assert get_experiment(context, failed).notified_at is None
    response = client.post(f"/api/experiments/{imported}/retry")
    assert response.status_code == 409
    assert response.json()["detail"] == "Only runs launched here can be retried. These were imported."
