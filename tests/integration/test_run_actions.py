import re

import pytest
from sqlalchemy import func, select

from app.db.models import Experiment, Opening, Run, RunStatus, RunTag, Step
from app.training.experiments import get_experiment, get_run
from app.training.run_actions import tag_run
from tests.factories import add_experiment, run_row

FAILED = {"status": RunStatus.FAILED, "error": "x"}


@pytest.fixture
def runs(context):
    rows = run_row(status=RunStatus.QUEUED), run_row(seed=1, **FAILED), run_row(seed=2), run_row(seed=3)
    experiment_id = add_experiment(context, *rows, name="sweep")
    return experiment_id, [run.id for run in get_experiment(context, experiment_id).runs]


def act(client, action, *ids, **fields):
    return client.post("/runs/actions", data={"run": list(ids), "action": action} | fields, follow_redirects=False)


def test_runs_are_cancelled_and_retried_with_local_redirects(client, runs, context):
    for query in ["", "q=lam", "experiment=/evil.example", "experiment=a/../b"]:
        for action in ("cancel", "retry"):
            location = act(client, action, runs[1][0], query=query).headers["location"]
            assert location.partition("?")[0] == "/compare/runs/list"
    experiment_id, (waiting, failed, *_) = runs
    response = act(client, "cancel", waiting, query=f"q=lam>0&experiment={experiment_id}")
    assert response.headers["location"] == f"/experiments/{experiment_id}?tab=runs&q=lam%3E0"
    act(client, "retry", failed)
    assert [get_run(context, run_id).status for run_id in (waiting, failed)] == [RunStatus.CANCELLED, RunStatus.QUEUED]


@pytest.mark.both_databases
def test_runs_are_searched_by_tag(client, context, runs):
    experiment_id, (first, second, *_) = runs
    tag_run(context, first, ["odd"])
    tag_run(context, second, ["Old", "odd"])
    assert "odd" in client.get("/api/tags").json()
    for q, count in (("tag:OD", 2), ("tag=odd", 2), ("tag=od", 0), ("tag:none", 2), ("-tag:odd", 2)):
        assert len(client.get(f"/api/experiments/{experiment_id}/runs", params={"q": q}).json()) == count, q
    assert client.get("/api/runs", params={"sort": "tag"}).json()[0]["tags"]
    table = client.get(f"/experiments/{experiment_id}?tab=runs").text
    assert 'href="/compare/runs/list?q=tag%3D%22odd%22"' in table


def test_page_replaces_and_refuses_tags_and_names_refused_runs(client, runs, context):
    run_id = runs[1][0]
    client.post(f"/runs/{run_id}/tags", data={"tags": "a, b"})
    assert client.get(f"/api/runs/{run_id}").json()["tags"] == ["a", "b"]
    assert 'value="a, b"' in client.get(f"/runs/{run_id}").text
    client.post(f"/runs/{run_id}/tags", data={"tags": ""})
    assert client.get(f"/api/runs/{run_id}").json()["tags"] == []
    response = client.post(f"/runs/{run_id}/tags", data={"tags": "x" * 41})
    assert (response.status_code, 'id="tags-error"' in response.text) == (422, True)
    assert f'value="{"x" * 41}"' in response.text
    response = client.patch(f"/api/runs/{run_id}", json={"tags": ["x" * 41]})
    assert (response.status_code, response.json()["field"]) == (422, "tags")
    _, (waiting, _, finished, _) = runs
    response = act(client, "cancel", waiting, finished, "gone")
    assert (response.status_code, "1 done, 2 refused." in response.text) == (409, True)
    assert "I-STAR, λ = 1, seed 2, of sweep: Only a run that has not ended can be cancelled" in response.text
    assert "gone: There is no run" in response.text
    assert get_run(context, waiting).status is RunStatus.CANCELLED


@pytest.mark.both_databases
def test_deletion_asks_first_and_removes_run_with_its_rows(client, context, runs):
    experiment_id, (*_, third, last) = runs
    tag_run(context, last, ["odd"])
    with context.sessions.begin() as session:
        session.add(Step(run_id=last, step=1, task_loss=0.5))
    assert "cannot be undone" in act(client, "delete", last).text
    assert act(client, "delete", last, confirmed="yes").status_code == 303
    assert client.get(f"/api/runs/{last}").status_code == 404
    with context.sessions() as session:
        assert [session.scalar(select(func.count()).select_from(table)) for table in (RunTag, Step)] == [0, 0]
    assert client.delete(f"/api/runs/{third}").status_code == 204
    for tab in ("result", "training", "runs"):
        assert client.get(f"/experiments/{experiment_id}?tab={tab}").status_code == 200
    assert client.get(f"/experiments/{experiment_id}/export.zip").status_code == 200


def test_needed_run_is_not_deleted(client, context, runs):
    experiment_id, (waiting, failed, *finished) = runs

    def refusal(run_id):
        answer = client.delete(f"/api/runs/{run_id}")
        assert answer.status_code == 409
        return answer.json()["detail"]

    assert refusal(waiting) == "This run is queued. Cancel it before you delete it."
    with context.sessions.begin() as session:
        opening = {"experiment_name": "sweep", "number": 1, "kind": "run", "position": 0, "label": "x", "by": "me"}
        session.add(Opening(experiment_id=experiment_id, rows_sha256="0" * 64, opened_before=0, **opening))
    assert refusal(failed) == "The test scores of its experiment are open, so its runs cannot be deleted."
    with context.sessions.begin() as session:
        session.query(Opening).delete()
        session.query(Run).filter(Run.id.in_([waiting, *finished])).delete()
    assert refusal(failed) == "This is the only run of its experiment. Delete the experiment instead."
    with context.sessions() as session:
        assert session.get(Experiment, experiment_id) is not None


def test_runs_table_has_checkboxes_and_api_lists_refused_runs(client, runs, context):
    experiment_id, ids = runs
    for path in (f"/experiments/{experiment_id}?tab=runs", "/compare/runs/list"):
        page = client.get(path).text
        assert re.findall(r'form="bulk-runs" name="run" value="(\w+)"', page) == ids
        actions = page.partition('id="bulk-runs"')[2].partition("</form>")[0]
        expected = [("cancel", "Cancel"), ("retry", "Retry"), ("delete", "Delete")]
        assert re.findall(r'name="action" value="(\w+)">(\w+)', actions) == expected
    _, (waiting, failed, finished, _) = runs
    request = {"action": "cancel", "ids": [waiting, finished, waiting]}
    result = client.post("/api/runs/actions", json=request).json()
    assert (result["done"], [row["id"] for row in result["refused"]]) == ([waiting], [finished])
    unknown = client.post("/api/runs/actions", json={"action": "star", "ids": [failed]})
    assert (unknown.status_code, unknown.json()["field"]) == (422, "action")
    assert "Actions are: cancel, retry, delete." in unknown.json()["detail"]
    assert client.post("/api/runs/actions", json={"action": "retry", "ids": []}).status_code == 422
