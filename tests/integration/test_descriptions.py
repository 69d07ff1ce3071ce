"""Name, notes and tags of embeddings and experiments; actions on selected rows."""

import re
from typing import NamedTuple

import pytest

from app.db.models import EmbeddingStatus, Experiment, RunStatus
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

    def listed(self, client, query=""):
        page = client.get(f"{self.path}{query}").text
        return re.findall(r'<th scope="row".*?<a href="[^"]*">(.*?)</a>', page)


KINDS = [Kind("/embeddings", "id"), Kind("/experiments", "experiment")]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.path[1:])
def kind(request):
    return request.param


def test_form_changes_name_notes_and_tags(client, context, kind):
    row_id = kind.add(context, "first")
    assert f'href="{kind.path}/{row_id}/description"' in client.get(f"{kind.path}/{row_id}").text
    form = {"name": " New  name ", "notes": "line\r\nline", "tags": "b, A,, b"}
    response = client.post(f"{kind.path}/{row_id}/description", data=form, follow_redirects=False)
    assert (response.status_code, response.headers["location"]) == (303, f"{kind.path}/{row_id}")
    row = kind.row(client, row_id)
    assert (row["name"], row["notes"], row["tags"]) == ("New name", "line\nline", ["A", "b"])
    assert "line\nline" in client.get(f"{kind.path}/{row_id}").text


def test_empty_field_is_emptied_and_absent_field_stays(client, context, kind):
    row_id = kind.add(context, "first")
    client.post(f"{kind.path}/{row_id}/description", data={"notes": "x", "tags": "y"})
    client.post(f"{kind.path}/{row_id}/description", data={"notes": ""})
    row = kind.row(client, row_id)
    assert (row["name"], row["notes"], row["tags"]) == ("first", "", ["y"])


@pytest.mark.parametrize(
    ("field", "value"), [("name", " "), ("name", "x" * 201), ("tags", "x" * 41), ("notes", "x" * 10_001)]
)
def test_refused_form_shows_error_at_field_and_keeps_typed_texts(client, context, kind, field, value):
    row_id = kind.add(context, "first")
    response = client.post(f"{kind.path}/{row_id}/description", data={"notes": "typed", field: value})
    assert response.status_code == 422
    assert f'id="{field}-error"' in response.text
    assert ("typed" in response.text) == (field != "notes")
    assert kind.row(client, row_id)["notes"] == ""


def test_patch_changes_only_fields_it_has(client, context, kind):
    row_id = kind.add(context, "first")
    path = f"/api{kind.path}/{row_id}"
    assert client.patch(path, json={"tags": ["x"]}).json()["tags"] == ["x"]
    row = client.patch(path, json={"notes": "y"}).json()
    assert (row["tags"], row["name"], row["notes"]) == (["x"], "first", "y")
    assert client.patch(path, json={"colour": "red"}).status_code == 422


@pytest.mark.both_databases
def test_lists_filter_by_tag_ignoring_case(client, context, kind):
    ids = {name: kind.add(context, name) for name in ("plain", "tagged")}
    client.patch(f"/api{kind.path}/{ids['tagged']}", json={"tags": ["Good"]})
    assert set(kind.listed(client)) == {"plain", "tagged"}
    assert kind.listed(client, "?tag=good") == ["tagged"]
    assert [row["name"] for row in client.get(f"/api{kind.path}?tag=GOOD").json()] == ["tagged"]
    assert client.get("/api/tags").json() == ["Good"]


def act(client, kind, action, *ids, **fields):
    data = {kind.field: list(ids), "action": action} | fields
    return client.post(f"{kind.path}/actions", data=data, follow_redirects=False)


def test_action_returns_to_the_same_list(client, context):
    embedding_id = KINDS[0].add(context, "a")
    response = act(client, KINDS[0], "trash", embedding_id, query="tag=x&page=1")
    assert (response.status_code, response.headers["location"]) == (303, "/embeddings?tag=x&page=1")


@pytest.mark.parametrize(("action", "message"), [("", "Choose one of the actions."), ("star", "Choose one of the")])
def test_unknown_action_is_refused(client, context, kind, action, message):
    response = act(client, kind, action, kind.add(context, "a"))
    assert response.status_code == 422
    assert message in response.text


@pytest.mark.parametrize(("kind", "action"), [(KINDS[0], "trash"), (KINDS[1], "cancel")])
def test_action_without_rows_is_refused(client, kind, action):
    response = act(client, kind, action)
    assert response.status_code == 422
    assert "No row is selected." in response.text


def test_deletion_asks_first_and_names_refused_rows(client, context):
    kind = KINDS[1]
    done, busy = kind.add(context, "done"), add_experiment(context, run_row(status=RunStatus.RUNNING), name="busy")
    assert "cannot be undone" in act(client, kind, "delete", done, busy).text
    assert kind.row(client, done)["name"] == "done"
    response = act(client, kind, "delete", done, busy, confirmed="yes")
    assert response.status_code == 409
    assert "1 done, 1 refused." in response.text
    assert "busy: 1 of its runs has not ended; cancel it before" in response.text
    assert client.get(f"/api/experiments/{done}").status_code == 404


def test_selected_experiments_are_cancelled_and_retried(client, context):
    kind = KINDS[1]
    busy = add_experiment(context, run_row(status=RunStatus.QUEUED), name="busy")
    failed = add_experiment(context, run_row(status=RunStatus.FAILED, error="x"), run_row(seed=1), name="failed")
    act(client, kind, "cancel", busy, failed)
    act(client, kind, "retry", failed)
    statuses = {
        experiment.name: [run.status for run in experiment.runs]
        for experiment in (get_experiment(context, busy), get_experiment(context, failed))
    }
    assert statuses == {"busy": [RunStatus.CANCELLED], "failed": [RunStatus.QUEUED, RunStatus.FINISHED]}


def test_selected_embeddings_go_to_trash_with_failed_drafts(client, context):
    ids = [add_embedding(context, "bad", status=EmbeddingStatus.FAILED, error="x"), add_embedding(context, "good")]
    act(client, KINDS[0], "trash", *ids)
    assert KINDS[0].listed(client) == []
    assert client.get("/api/trash").json()["total"] == 2


def test_selected_drafts_are_measured_and_other_rows_refused(client, context):
    draft = add_embedding(context, "draft", status=EmbeddingStatus.DRAFT)
    ready = add_embedding(context, "ready")
    response = act(client, KINDS[0], "measure", draft, ready)
    assert "1 done, 1 refused." in response.text
    assert "ready: Only a draft can be measured; this embedding is ready." in response.text
    assert client.get(f"/api/embeddings/{draft}").json()["status"] == "measuring"


def test_library_filters_by_status(client, context):
    for status in (EmbeddingStatus.FAILED, EmbeddingStatus.DRAFT, EmbeddingStatus.READY):
        add_embedding(context, status.value, status=status)
    assert KINDS[0].listed(client, "?status=failed") == ["failed"]
    assert [row["name"] for row in client.get("/api/embeddings?status=draft").json()] == ["draft"]
    assert client.get("/embeddings?status=nonsense").status_code == 422


def test_one_button_retries_failed_runs_of_experiment(client, context):
    failed = add_experiment(context, run_row(status=RunStatus.FAILED, error="x"), run_row(seed=1), name="failed")
    assert f'action="/experiments/{failed}/retry"' in client.get(f"/experiments/{failed}").text
    client.post(f"/experiments/{failed}/retry")
    assert f'action="/experiments/{failed}/retry"' not in client.get(f"/experiments/{failed}").text
    with context.sessions() as session:
        assert session.get(Experiment, failed).notified_at is None


def test_imported_runs_cannot_be_retried(client, context):
    experiment_id = add_experiment(
        context, run_row(status=RunStatus.FAILED, error="x"), name="elsewhere", origin="imported"
    )
    response = client.post(f"/api/experiments/{experiment_id}/retry")
    assert response.status_code == 409
    assert response.json()["detail"] == "Only runs launched here can be retried. These were imported."
