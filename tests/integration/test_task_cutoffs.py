import numpy as np
import pytest

from isotropy.catalog.calibration import PROMISES
from tests.task_rows import add_rows
from workers.tasks import judge_task

N, D = 600, 16


@pytest.fixture
def corpus(context, tmp_path):
    random = np.random.default_rng(0)
    documents = random.normal(size=(N, D))
    vectors = np.concatenate([documents, documents + random.normal(size=(N, D))])
    vectors[:, 0] *= 8
    return add_rows(context, tmp_path, "d", vectors.astype(np.float32))


def request_pairs(client, corpus, scale=1, **fields):
    lines = [f"d{N + row},d{row if row % 2 else (row + N // 2) % N},{scale * (row % 2)}" for row in range(N)]
    files = {"file": ("pairs.csv", "\n".join(["one,two,score", *lines]).encode())}
    return client.post(f"/api/embeddings/{corpus}/tasks", data={"kind": "pairs", **fields}, files=files)


def test_page_shows_cutoffs_of_api(client, settings, corpus, tmp_path, monkeypatch):
    task_id = request_pairs(client, corpus).json()["id"]
    judge_task(task_id, settings, "cpu")
    task = client.get(f"/api/tasks/{task_id}").json()
    assert task["status"] == "finished", task["error"]
    calibration = task["results"]["calibration"]
    assert (calibration["pairs"]["labeled_matches"], calibration["chosen"] > 0) == (N // 2, True)
    as_it_is, chosen = calibration["spaces"]
    assert {(cutoff["kind"], cutoff["promise"]) for cutoff in chosen["cutoffs"]} == {
        (kind, promise) for kind in ("miss", "false_match") for promise in PROMISES
    }
    for cutoff, unchanged in zip(chosen["cutoffs"], as_it_is["cutoffs"], strict=True):
        page = client.get(f"/tasks/{task_id}", params={"promise": f"{cutoff['kind']}-{cutoff['promise']}"}).text
        assert cutoff["sentence"] in page
        assert calibration["comparison"] in page
        for entry in (cutoff, unchanged):
            cells = f"{entry['labels']} of {entry['labels_needed']}"
            if entry["cutoff"] is not None:
                cells = f"{entry['cutoff']:.10g}".replace("-", "−")
            assert cells in page
    assert client.get(f"/tasks/{task_id}", params={"promise": "miss-0.2"}).status_code == 422
    points = client.get(f"/tasks/{task_id}/figures/cutoff.csv").text.splitlines()
    assert len(points) == len(chosen["curve"]) + 1
    assert client.get(f"/api/tasks/{task_id}/figures/pairs").status_code == 200
    (tmp_path / "map.safetensors").write_bytes(client.get(f"/tasks/{task_id}/map.safetensors?which=cutoff").content)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(next(cutoff["code"] for cutoff in chosen["cutoffs"] if cutoff["promise"] == 0.1), names)
    assert names["is_match"](np.ones((2, D), np.float32), np.ones((2, D), np.float32)).shape == (2,)
    assert client.delete(f"/api/tasks/{task_id}").status_code == 204


def test_graded_scores_need_minimum_of_a_match(client, settings, corpus):
    task = request_pairs(client, corpus, scale=4, launch="false").json()
    assert task["preview"]["score_range"] == [0, 4]
    assert "Scores run from 0 to 4. Without it there is no cutoff." in client.get(f"/tasks/{task['id']}").text
    for match, problem in (("x", "Give a number."), ("9", "Expected a score above 0 and at most 4, got 9.")):
        refused = client.post(f"/tasks/{task['id']}/launch", data={"match": match})
        assert (refused.status_code, problem in refused.text) == (422, True)
    assert request_pairs(client, corpus, scale=4, match=9).json()["detail"] == problem
    assert client.post(f"/tasks/{task['id']}/launch", data={"match": "4"}).status_code == 303
    judge_task(task["id"], settings, "cpu")
    task = client.get(f"/api/tasks/{task['id']}").json()
    assert (task["config"]["match"], task["results"]["calibration"]["pairs"]["match"]) == (4, 4)

    without = request_pairs(client, corpus, scale=4).json()["id"]
    judge_task(without, settings, "cpu")
    task = client.get(f"/api/tasks/{without}").json()
    assert task["results"]["calibration"] is None
    assert task["notes"] == ["There is no cutoff. Scores run from 0 to 4. Set the minimum score of a match."]
    assert client.get(f"/tasks/{without}/map.safetensors?which=cutoff").status_code == 409
    assert 'name="match"' in client.get(f"/tasks/{without}").text
    assert client.post(f"/api/tasks/{without}/launch").status_code == 409
    assert client.post(f"/api/tasks/{without}/launch", params={"match": 4}).json()["results"] is None
    judge_task(without, settings, "cpu")
    assert client.get(f"/api/tasks/{without}").json()["results"]["calibration"]["pairs"]["match"] == 4
    assert 'required value="4"' in client.get(f"/tasks/{without}").text, "the minimum can be changed"
    assert client.post(f"/tasks/{without}/launch", data={"match": "9"}).text.count(problem) == 1
    assert client.get(f"/tasks/{without}/map.safetensors?which=cutoff").status_code == 200
    refused = client.post(f"/api/embeddings/{corpus}/tasks", data={"kind": "labels", "labels": "side", "match": "1"})
    assert (refused.status_code, refused.json()["field"]) == (422, "match")


def test_labels_get_cutoffs_and_report_leads_to_pairs(client, settings, corpus):
    task_id = client.post(f"/api/embeddings/{corpus}/tasks", data={"kind": "labels", "labels": "side"}).json()["id"]
    assert all("judging" in client.get(path).text for path in ("/", "/queue"))
    judge_task(task_id, settings, "cpu")
    assert client.get("/api/queue").json()["embeddings"] == []
    calibration = client.get(f"/api/tasks/{task_id}").json()["results"]["calibration"]
    assert calibration["pairs"]["matches"] == "rows with a random row of their label"
    assert 'id="cutoff"' in client.get(f"/tasks/{task_id}").text
    assert f"/embeddings/{corpus}/tasks?kind=pairs#truth" in client.get(f"/embeddings/{corpus}").text
