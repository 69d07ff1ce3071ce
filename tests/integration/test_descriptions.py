"""What users say of embeddings and experiments: name, notes, tags, star, archive; actions on selected rows."""

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


@pytest.mark.both_databases
def test_a_row_is_renamed_noted_tagged_starred_and_archived_without_javascript(client, context, kind):
    row_id = kind.add(context, "first")
    page = client.get(f"{kind.path}/{row_id}").text
    assert f'action="{kind.path}/{row_id}/description"' in page
    form = {"name": " New  name ", "notes": "line\r\nline", "tags": "b, A,, b"}
    answer = client.post(f"{kind.path}/{row_id}/description", data=form, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{kind.path}/{row_id}")
    for name in ("starred", "archived"):
        client.post(f"{kind.path}/{row_id}/description", data={name: "true"})
    row = kind.row(client, row_id)
    assert (row["name"], row["notes"], row["tags"], row["starred"]) == ("New name", "line\nline", ["A", "b"], True)
    assert row["archived_at"] is not None
    page = client.get(f"{kind.path}/{row_id}").text
    assert "Unstar" in page
    assert "Unarchive" in page
    assert "line\nline" in page


def test_an_emptied_field_is_emptied_and_an_absent_one_stays(client, context, kind):
    row_id = kind.add(context, "first")
    client.post(f"{kind.path}/{row_id}/description", data={"notes": "x", "tags": "y"})
    client.post(f"{kind.path}/{row_id}/description", data={"notes": ""})
    row = kind.row(client, row_id)
    assert (row["name"], row["notes"], row["tags"]) == ("first", "", ["y"])


@pytest.mark.parametrize(
    ("field", "value"), [("name", " "), ("name", "x" * 201), ("tags", "x" * 41), ("notes", "x" * 10_001)]
)
def test_what_cannot_be_kept_is_told_at_its_field_and_nothing_is_lost(client, context, kind, field, value):
    row_id = kind.add(context, "first")
    answer = client.post(f"{kind.path}/{row_id}/description", data={"notes": "typed", field: value})
    assert answer.status_code == 422
    assert f'id="{field}-error"' in answer.text
    assert ("typed" in answer.text) == (field != "notes")
    assert kind.row(client, row_id)["notes"] == ""


def test_the_api_changes_only_what_is_given(client, context, kind):
    row_id = kind.add(context, "first")
    path = f"/api{kind.path}/{row_id}"
    assert client.patch(path, json={"tags": ["x"]}).json()["tags"] == ["x"]
    assert client.patch(path, json={"archived": True}).json()["archived_at"]
    told = client.patch(path, json={"archived": False, "starred": True}).json()
    assert (told["archived_at"], told["starred"], told["tags"], told["name"]) == (None, True, ["x"], "first")
    assert client.patch(path, json={"colour": "red"}).status_code == 422


@pytest.mark.both_databases
def test_lists_leave_out_what_is_archived_and_show_shelves_and_tags(client, context, kind):
    ids = {name: kind.add(context, name) for name in ("plain", "star", "gone")}
    client.patch(f"/api{kind.path}/{ids['star']}", json={"starred": True, "tags": ["Good"]})
    client.patch(f"/api{kind.path}/{ids['gone']}", json={"archived": True})
    assert set(kind.listed(client)) == {"plain", "star"}
    assert kind.listed(client, "?shelf=starred") == ["star"]
    assert kind.listed(client, "?shelf=archived") == ["gone"]
    assert set(kind.listed(client, "?shelf=all")) == {"plain", "star", "gone"}
    assert kind.listed(client, "?tag=good") == ["star"]
    assert len(client.get(f"/api{kind.path}").json()) == 3
    assert [one["name"] for one in client.get(f"/api{kind.path}?shelf=archived").json()] == ["gone"]
    assert [one["name"] for one in client.get(f"/api{kind.path}?tag=GOOD").json()] == ["star"]
    assert client.get("/api/tags").json() == ["Good"]


def test_a_list_of_which_all_is_archived_says_so(client, context, kind):
    kind.add(context, "gone")
    act(client, kind, "archive", *[one["id"] for one in client.get(f"/api{kind.path}").json()])
    assert f'href="{kind.path}?shelf=archived"' in client.get(kind.path).text


def act(client, kind, action, *ids, **fields):
    data = {kind.field: list(ids), "action": action} | fields
    return client.post(f"{kind.path}/actions", data=data, follow_redirects=False)


def test_selected_rows_are_starred_and_the_way_leads_back_to_the_same_list(client, context, kind):
    ids = [kind.add(context, name) for name in ("a", "b", "c")]
    answer = act(client, kind, "star", *ids[:2], query="shelf=all&page=1")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{kind.path}?shelf=all&page=1")
    assert [kind.row(client, one)["starred"] for one in ids] == [True, True, False]
    act(client, kind, "unstar", *ids)
    assert not any(kind.row(client, one)["starred"] for one in ids)


def test_tags_are_asked_for_and_added_to_those_that_are_there(client, context, kind):
    row_id = kind.add(context, "a")
    client.patch(f"/api{kind.path}/{row_id}", json={"tags": ["old"]})
    asked = act(client, kind, "tag", row_id)
    assert asked.status_code == 200
    assert f'value="{row_id}"' in asked.text
    assert 'name="tags"' in asked.text
    refused = act(client, kind, "tag", row_id, tags="x" * 41, confirmed="yes")
    assert refused.status_code == 422
    assert 'id="tags-error"' in refused.text
    act(client, kind, "tag", row_id, tags="new, OLD", confirmed="yes")
    assert [tag.lower() for tag in kind.row(client, row_id)["tags"]] == ["new", "old"]


@pytest.mark.parametrize("action", ["star", "delete-everything", ""])
def test_nothing_selected_or_no_such_action_is_told(client, kind, action):
    answer = act(client, kind, action)
    assert answer.status_code == 422
    assert ("No row is selected." if action == "star" else "Choose one of the actions.") in answer.text


def test_deleting_asks_first_and_what_is_refused_is_told_by_name(client, context):
    kind = KINDS[1]
    done, busy = kind.add(context, "done"), add_experiment(context, run_row(status=RunStatus.RUNNING), name="busy")
    asked = act(client, kind, "delete", done, busy)
    assert "cannot be undone" in asked.text
    assert kind.row(client, done)["name"] == "done"
    answer = act(client, kind, "delete", done, busy, confirmed="yes")
    assert answer.status_code == 409
    assert "1 done, 1 refused." in answer.text
    assert "busy: 1 of its runs has not ended; cancel it before" in answer.text
    assert client.get(f"/api/experiments/{done}").status_code == 404


def test_selected_experiments_are_cancelled_and_their_failed_runs_retried(client, context):
    kind = KINDS[1]
    busy = add_experiment(context, run_row(status=RunStatus.QUEUED), name="busy")
    failed = add_experiment(context, run_row(status=RunStatus.FAILED, error="x"), run_row(seed=1), name="failed")
    act(client, kind, "cancel", busy, failed)
    act(client, kind, "retry", failed)
    statuses = {
        one.name: [run.status for run in one.runs]
        for one in (get_experiment(context, busy), get_experiment(context, failed))
    }
    assert statuses == {"busy": [RunStatus.CANCELLED], "failed": [RunStatus.QUEUED, RunStatus.FINISHED]}


def test_selected_embeddings_go_to_the_trash_failed_drafts_included(client, context):
    ids = [add_embedding(context, "bad", status=EmbeddingStatus.FAILED, error="x"), add_embedding(context, "good")]
    act(client, KINDS[0], "trash", *ids)
    assert KINDS[0].listed(client) == []
    assert client.get("/api/trash").json()["total"] == 2


def test_selected_drafts_are_measured_and_what_is_no_draft_is_told(client, context):
    draft = add_embedding(context, "draft", status=EmbeddingStatus.DRAFT)
    ready = add_embedding(context, "ready")
    answer = act(client, KINDS[0], "measure", draft, ready)
    assert "1 done, 1 refused." in answer.text
    assert "ready: Only a draft can be measured; this embedding is ready." in answer.text
    assert client.get(f"/api/embeddings/{draft}").json()["status"] == "measuring"


def test_the_library_filters_by_status(client, context):
    for status in (EmbeddingStatus.FAILED, EmbeddingStatus.DRAFT, EmbeddingStatus.READY):
        add_embedding(context, status.value, status=status)
    assert KINDS[0].listed(client, "?status=failed") == ["failed"]
    assert [one["name"] for one in client.get("/api/embeddings?status=draft").json()] == ["draft"]
    assert client.get("/embeddings?status=nonsense").status_code == 422


def test_failed_runs_of_an_experiment_are_retried_by_one_button(client, context):
    failed = add_experiment(context, run_row(status=RunStatus.FAILED, error="x"), run_row(seed=1), name="failed")
    assert f'action="/experiments/{failed}/retry"' in client.get(f"/experiments/{failed}").text
    client.post(f"/experiments/{failed}/retry")
    assert f'action="/experiments/{failed}/retry"' not in client.get(f"/experiments/{failed}").text
    with context.sessions() as session:
        assert session.get(Experiment, failed).notified_at is None


def test_runs_of_another_dashboard_cannot_be_retried(client, context):
    there = add_experiment(context, run_row(status=RunStatus.FAILED, error="x"), name="there", origin="imported")
    answer = client.post(f"/api/experiments/{there}/retry")
    assert answer.status_code == 409
    assert answer.json()["detail"] == "Only runs launched here can be retried. These were imported."
