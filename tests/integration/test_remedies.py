import html
import json
import re

import numpy as np
import pytest

from app.db.models import Embedding, EmbeddingStatus
from app.db.task import TaskResults
from app.embeddings.remedies import describe_trial
from isoscope.cli import main
from isoscope.remedies import rows_within_seconds
from tests.cached_rows import make_once
from tests.task_rows import add_rows
from workers.embeddings.measure import measure_embedding
from workers.tasks import judge_task

N, D = 400, 8


@pytest.fixture
def x():
    """Points whose classes hide behind a strong direction."""
    x = np.random.default_rng(3).normal(size=(N, D)).astype(np.float32)
    x[:, 0] *= 20
    return x


def add(context, tmp_path, x, name="cloud", labels="side", **columns):
    """Add an embedding that waits to be measured, with or without chosen labels."""
    embedding_id = add_rows(context, tmp_path, name, x, name, status=EmbeddingStatus.MEASURING, **columns)
    with context.sessions.begin() as session:
        row = session.get(Embedding, embedding_id)
        row.selection = {**row.selection, "labels": labels}
    return embedding_id


@pytest.fixture
def try_remedies(client, settings, context, tmp_path):
    """Measure an embedding, have its remedies judged, and return its id and the task."""

    def try_remedies(x, **columns):
        embedding_id = add(context, tmp_path, x, **columns)
        jobs = measure_embedding(embedding_id, settings, "cpu")
        assert [job.kind.name for job in jobs] == ["judge", "layout"]
        judge_task(jobs[0].row_id, settings, "cpu")
        return embedding_id, client.get(f"/api/tasks/{jobs[0].row_id}").json()

    return try_remedies


@pytest.fixture
def judged(client, context, module_cache, try_remedies, x):
    embedding_id = make_once(context, module_cache, "judged", lambda: try_remedies(x)[0])
    (task,) = client.get(f"/api/embeddings/{embedding_id}/tasks").json()
    return embedding_id, client.get(f"/api/tasks/{task['id']}").json()


def page_of(client, address):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", client.get(address).text)).split())


def test_decision_on_labeled_embedding_heads_report(client, judged):
    embedding_id, task = judged
    assert task["status"] == "finished", task["error"]
    conclusion = task["results"]["conclusion"]
    assert conclusion.startswith(("Standardize: the nearest neighbors of a row predict", "Whiten", "Remove the mean"))
    assert "It was chosen as the best change that clearly beats the baseline." in conclusion
    head = client.get(f"/embeddings/{embedding_id}").text.partition('class="headline"')[2]
    assert conclusion in html.unescape(head)
    assert f'action="/tasks/{task["id"]}/embedding"' in head
    assert "Apply makes a new embedding and keeps this one." in head
    assert client.get(f"/tasks/{task['id']}/map.safetensors?which=chosen").status_code == 200
    assert f"/tasks/{task['id']}/map.safetensors?which=chosen" in head
    assert "chosen on 160, reported on 160 others" in page_of(client, f"/embeddings/{embedding_id}")
    findings = head.partition('id="findings"')[2]
    assert "Standardization, tried on your ground truth: better, +0." in findings
    assert "Standardize or drop" not in findings
    response = client.post(f"/tasks/{task['id']}/embedding", data={"which": "chosen"})
    assert response.headers["location"].startswith("/embeddings/")


def test_trial_is_worse_only_if_its_interval_is(judged):
    _, task = judged
    for difference, low, high, sentence in (
        (-0.039, -0.061, -0.019, "worse, −0.039 k-NN accuracy (−0.061 to −0.019)."),
        (0.01, -0.002, 0.02, "no clear gain, +0.010 k-NN accuracy (−0.002 to +0.020)."),
        (0.0, 0.0, 0.0, "no clear gain, 0.000 k-NN accuracy (0.000 to 0.000)."),
    ):
        for variant in task["results"]["variants"]:
            variant["report"] |= {"difference": difference, "difference_low": low, "difference_high": high}
        results = TaskResults.model_validate(task["results"])
        assert describe_trial(results, "centring") == f"Centering, tried on your ground truth: {sentence}"
        assert describe_trial(results, "flow") == describe_trial(None, "centring") == ""


def test_check_decide_api_and_page_agree(client, try_remedies, x, tmp_path, capsys):
    embedding_id, task = try_remedies(x)
    (listed,) = client.get(f"/api/embeddings/{embedding_id}/tasks").json()
    conclusion = listed["conclusion"]
    assert conclusion in page_of(client, f"/embeddings/{embedding_id}")
    file = str(tmp_path / "cloud.jsonl")
    assert main(["check", file]) == 0
    assert conclusion in capsys.readouterr().out.splitlines()
    assert main(["check", file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["decision"]["variants"] == task["results"]["variants"]
    assert main(["decide", file, "--labels", "side"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == conclusion


def test_waiting_decision_updates_itself(client, settings, context, tmp_path, x):
    embedding_id = add(context, tmp_path, x)
    measure_embedding(embedding_id, settings, "cpu")
    page = client.get(f"/embeddings/{embedding_id}").text
    assert "Trying remedies by column side" in page
    assert 'hx-select="#decision"' in page


def test_too_few_rows_are_not_evaluated(client, settings, context, tmp_path, x):
    embedding_id = add(context, tmp_path, x[:60])
    assert [job.kind.name for job in measure_embedding(embedding_id, settings, "cpu")] == ["layout"]
    isotropic = add(context, tmp_path, np.random.default_rng(0).normal(size=(90, 4)).astype(np.float32), "even")
    assert [job.kind.name for job in measure_embedding(isotropic, settings, "cpu")] == ["layout"]
    assert "Nothing to mend." in page_of(client, f"/embeddings/{isotropic}")
    assert (
        "Standardize or drop" in client.get(f"/embeddings/{embedding_id}").text.partition('class="headline"')[2][:400]
    )


def test_categorical_column_is_default_and_layers_share_a_family(client, try_remedies, x):
    ids, tasks = zip(*(try_remedies(x, layer=layer, labels=None) for layer in (0, 1)), strict=True)
    assert [task["config"]["labels"] for task in tasks] == ["side", "side"]
    members = client.get(f"/api/tasks/{tasks[0]['id']}/family").json()["members"]
    assert [member["embedding_id"] for member in members] == list(ids)


def test_large_embedding_is_sampled(client, try_remedies, x, monkeypatch):
    monkeypatch.setattr("isoscope.remedies.rows_within_seconds", lambda d: 200)
    embedding_id, task = try_remedies(x)
    assert task["results"]["n"] == 200
    assert task["notes"] == ["200 of 400 labeled rows, drawn at random, are judged."]
    page = page_of(client, f"/embeddings/{embedding_id}")
    assert "on 200 of 400 rows" in page
    assert "Judge every method on all rows" in page


def test_task_tab_ranks_remedies_and_links_to_lab(client, judged):
    embedding_id, task = judged
    for path in (f"/embeddings/{embedding_id}/lab?method=centring", f"/tasks/{task['id']}"):
        other_tab = client.get(path).text
        assert ("<h1>cloud</h1>" in other_tab, 'aria-label="Parts of this page"' in other_tab) == (True, True)
    page = client.get(f"/embeddings/{embedding_id}/tasks").text
    assert ("<h1>cloud</h1>" in page, 'aria-label="Parts of this page"' in page) == (True, True)
    assert page.index('id="remedies"') < page.index("Judge by other ground truth")
    assert 'kind=labels#truth" aria-current="page"' in page
    table = page.partition('id="remedies"')[2].partition("</section>")[0]
    names = [html.unescape(name) for name in re.findall(r'<th scope="row" class="wrap">(?:<a[^>]*>)?([^<]+)', table)]
    assert set(names) >= {"As it is", "Standardization", "Gaussian calibration by a flow"}
    scores = {variant["name"]: variant["choose"]["value"] for variant in task["results"]["variants"]}
    ranked = [scores[name[0].lower() + name[1:]] if name == "As it is" else scores.get(name) for name in names]
    ranked = [score for score in ranked if score is not None]
    assert names[0] == "As it is"
    assert ranked[1:] == sorted(ranked[1:], reverse=True)
    assert [re.search(rf">{score:.3f}</td>", table) is not None for score in ranked] == [True] * len(ranked)
    assert f'href="/embeddings/{embedding_id}/lab?method=standardisation"' in table
    lab, results = f"/embeddings/{embedding_id}/lab", task["results"]
    chosen = results["variants"][results["chosen"]]
    assert client.get(lab).headers["location"].startswith(f"{lab}?method={chosen['method']}")
    assert f"By the held-out rows of your task, {chosen['name']}: k-NN accuracy" in page_of(
        client, f"{lab}?method={chosen['method']}"
    )


@pytest.mark.parametrize("d", [2, 384, 4096])
def test_rows_within_seconds_fall_with_dimensions(d):
    assert rows_within_seconds(2 * d) <= rows_within_seconds(d)
    assert 2_000 <= rows_within_seconds(d) <= 50_000
