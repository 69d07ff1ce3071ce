import re

import pytest
from sqlalchemy import select

from app.db import job_kinds
from app.db.job_kinds import Queue
from app.db.models import Dataset, DatasetOrigin, EmbeddingStatus, Encoding, EncodingStatus, Experiment, RunStatus
from app.db.work import next_waiting_job
from app.operations.samples import ENCODING, get_sample_dataset, launch_samples
from app.training.datasets import delete_dataset
from tests.factories import add_embedding, add_experiment, embedding, run_row
from tests.queries import count_rows


def test_first_start_launches_both_samples_once(context):
    assert launch_samples(context)
    assert next_waiting_job(context.sessions, Queue.GPU, ()).kind is job_kinds.ENCODE
    with context.sessions() as session:
        [experiment], [encoding] = session.scalars(select(Experiment)).all(), session.scalars(select(Encoding)).all()
        expected = sorted((lam, seed) for lam in (-1.0, -0.3, 0.0, 0.3, 1.0) for seed in (0, 1, 2))
        assert sorted({(run.lam, run.seed) for run in experiment.runs}) == expected
        assert encoding.status is EncodingStatus.QUEUED
        assert (encoding.config, encoding.n_texts) == (ENCODING, 2000)
    assert not launch_samples(context)
    assert count_rows(context, Experiment) == count_rows(context, Encoding) == 1


def test_samples_need_empty_library_and_recreate_their_dataset(context):
    with context.sessions.begin() as session:
        session.add(embedding("mine"))
    assert not launch_samples(context)
    assert count_rows(context, Dataset) == 0
    first = get_sample_dataset(context)
    delete_dataset(context, first.id)
    second = get_sample_dataset(context)
    assert second.id != first.id
    assert second.origin is DatasetOrigin.SAMPLE


def test_sample_is_launched_again_on_same_dataset(client, context):
    for sample, table in [("sweep", Experiment), ("embedding", Encoding)]:
        launch_samples(context)
        answer = client.post(f"/samples/{sample}", follow_redirects=False)
        assert answer.status_code == 303
        assert client.get(answer.headers["location"]).status_code == 200
        assert (count_rows(context, table), count_rows(context, Dataset)) == (2, 1)


def test_api_launches_samples_and_form_suggests_three_seeds(client, context):
    for sample in ("sweep", "embedding"):
        answer = client.post(f"/api/samples/{sample}")
        assert answer.status_code == 201
        assert client.get(answer.json()["path"]).json()["id"] == answer.json()["id"]
    dataset = get_sample_dataset(context)
    assert re.search(r'name="seeds"[^>]*value="0, 1, 2"', client.get("/experiments/new").text)
    columns = {"text_columns": ["sentence"], "label_column": "label"}
    launched = client.post("/api/experiments", json={"dataset_id": dataset.id, "model": "all-MiniLM-L6-v2"} | columns)
    assert {run["seed"] for run in launched.json()["runs"]} == {0}


def test_home_starts_with_two_questions_and_shows_decisions(client, context):
    empty = client.get("/").text
    assert re.findall(r'<a role="button" href="([^"]*)"', empty) == ["/experiments/new", "/embeddings"]
    assert set(re.findall(r'action="(/samples/[^"]*)"', empty)) == {"/samples/sweep", "/samples/embedding"}
    assert "decisions-title" not in empty
    add_experiment(context, run_row(), name="Ended")
    add_experiment(context, run_row(performance=float("inf")), name="Diverged")
    add_experiment(context, run_row(), run_row(seed=1, status=RunStatus.QUEUED, performance=None), name="Waits")
    add_embedding(context, "cloud")
    page = client.get("/").text
    decisions = re.sub(r"<[^>]+>", " ", page.partition('<dl class="decisions">')[2].partition("</dl>")[0])
    assert re.findall(r"cloud|Ended|Waits|Diverged", decisions) == ["cloud", "Ended"]
    assert "Nothing to mend." in decisions
    assert "Does λ matter? Cannot be tested yet. Nothing to compare yet:" in decisions
    assert "0 running, 1 waiting" in re.search('<section id="running".*?</section>', page, re.DOTALL).group()


@pytest.mark.parametrize("status", [EmbeddingStatus.MEASURING, EmbeddingStatus.READY])
def test_home_polls_only_while_measuring(client, context, status):
    with context.sessions.begin() as session:
        session.add(embedding("cloud", status=status))
    assert ('hx-trigger="every 2s"' in client.get("/").text) == (status is EmbeddingStatus.MEASURING)
