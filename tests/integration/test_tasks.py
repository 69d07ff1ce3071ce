import json
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pytest
from safetensors.numpy import load
from sqlalchemy import select, text

from app.db import job_kinds
from app.db.models import Embedding, EmbeddingStatus, Encoding, EncodingStatus, StoredFile, TaskRun, TaskStatus
from app.db.task import TaskConfig
from app.db.work import list_waiting_jobs
from app.queue import Job
from isotropy.catalog import TruthKind
from isotropy.tasks.judge import decide
from isotropy.tasks.variants import default_variants
from tests.task_rows import add_rows, hidden_side
from workers.tasks import judge_task

N, M, D = 300, 150, 16
QRELS = "qrels.tsv"


@pytest.fixture(scope="module")
def numbers():
    return hidden_side(N, D, M)


@pytest.fixture
def add(context, tmp_path):
    return partial(add_rows, context, tmp_path)


@pytest.fixture
def corpus(add, numbers):
    return add("d", numbers[0])


@pytest.fixture
def queries(add, numbers):
    return add("q", numbers[1])


@pytest.fixture
def qrels(numbers):
    lines = ["query-id\tcorpus-id\tscore", *(f"q{row}\td{doc}\t1" for row, doc in enumerate(numbers[2]))]
    return [*lines, "q1\tunknown\t1", "nobody\td3\t1"]


def request_task(client, corpus, kind, lines=None, name=QRELS, **fields):
    files = None if lines is None else {"file": (name, "\n".join(lines).encode())}
    return client.post(f"/api/embeddings/{corpus}/tasks", data={"kind": kind, **fields}, files=files)


@pytest.mark.sandbox
def test_queries_are_judged_and_map_applies(client, settings, corpus, queries, qrels, numbers, tmp_path, monkeypatch):
    form = {"kind": "queries", "queries_id": queries, "similarity": "cosine", "metric": "mrr@10", "seed": "1"}
    files = {"file": (QRELS, "\n".join(qrels).encode())}
    sent = client.post(f"/embeddings/{corpus}/tasks", data=form, files=files)
    assert sent.status_code == 303, sent.text
    address = sent.headers["location"]
    page = client.get(address).text
    assert "150 of 152 lines are about these vectors." in page
    assert "1 unknown document id: <code>unknown</code>" in page
    assert client.post(f"{address}/launch").status_code == 303
    task = client.get(f"/api{address}").json()
    assert (task["status"], task["results"]) == ("queued", None)
    assert (task["preview"]["lines"], task["preview"]["used"]) == (M + 2, M)
    expected = [("query", ["nobody"]), ("document", ["unknown"])]
    assert [(unknown_ids["noun"], unknown_ids["examples"]) for unknown_ids in task["preview"]["unknown"]] == expected
    judge_task(task["id"], settings, "cpu")
    task = client.get(f"/api/tasks/{task['id']}").json()
    assert task["status"] == "finished", task["error"]
    results = task["results"]
    assert (results["task"], results["metric"], results["n"], results["d"]) == ("queries", "mrr@10", N, D)
    assert (task["done"], task["total"]) == (len(results["variants"]), len(results["variants"]))
    assert task["notes"] == [f"2 rows of {QRELS} have ids that no vector has and are left out."]
    page = client.get(f"/tasks/{task['id']}").text
    for words in (results["conclusion"].split(":")[0], "MRR@10", "figure-isotropy", "figure-bytes"):
        assert words in page
    assert client.get(f"{address}/figures/bytes.csv").text.startswith("variant,role,bytes")

    tensors = client.get(f"/tasks/{task['id']}/map.safetensors").content
    (tmp_path / "map.safetensors").write_bytes(tensors)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(task["maps"]["chosen"], names)
    assert names["apply"](numbers[0]).shape == (N, load(tensors)["matrix"].shape[1])
    assert "Delete permanently" in client.get(f"{address}/delete").text
    assert client.post(f"{address}/delete").headers["location"] == f"/embeddings/{corpus}/tasks"
    assert client.get(address).status_code == 404


def test_form_follows_kind_and_pages_count_dependent_tasks(client, corpus, queries, context):
    for kind in ["queries", "pairs", "labels", "compression"]:
        page = client.get(f"/embeddings/{corpus}/tasks?kind={kind}").text
        assert ('type="file"' in page) == (kind in ("queries", "pairs"))
        assert (queries in page) == (kind in ("queries", "compression"))
        assert ('id="labels"' in page) == (kind == "labels")
        wrong = client.post(f"/embeddings/{corpus}/tasks", data={"kind": kind, "seed": "x", "labels": "side"})
        assert (wrong.status_code, 'id="seed-error"' in wrong.text) == (422, True)
    warning = "2 tasks that use these vectors are deleted too"
    encoding = Encoding(name="e", filename="e.txt", n_texts=1, columns=[], status=EncodingStatus.FINISHED)
    with context.sessions.begin() as session:
        encoding.file_sha256 = session.scalars(select(StoredFile.sha256)).first()
        session.add(encoding)
        session.flush()
        for _ in range(2):
            config = TaskConfig(kind=TruthKind.COMPRESSION)
            session.add(TaskRun(embedding_id=corpus, queries_id=queries, config=config))
    assert warning in client.get(f"/embeddings/{corpus}?tab=details").text
    assert warning in client.get(f"/embeddings/{queries}?tab=details").text
    with context.sessions.begin() as session:
        session.get_one(Embedding, queries).encoding_id = encoding.id
    assert warning in client.get(f"/encodings/{encoding.id}/delete").text
    client.post(f"/embeddings/{queries}/trash")
    assert warning in client.get(f"/trash/{queries}/purge").text
    assert warning in client.get("/trash/purge").text


@pytest.mark.sandbox
def test_labels_pairs_and_compression_are_judged(client, settings, corpus, numbers):
    pairs = np.random.default_rng(0).permutation(N).reshape(-1, 2)
    products = (numbers[0][pairs[:, 0]] * numbers[0][pairs[:, 1]]).sum(1)
    lines = ["one,other,score", *(f"d{a},d{b},{p}" for (a, b), p in zip(pairs, products, strict=True))]
    answers = [
        request_task(client, corpus, "labels", labels="side", groups="home"),
        request_task(client, corpus, "pairs", lines, "pairs.csv", similarity="dot"),
        request_task(client, corpus, "compression", similarity="euclidean"),
    ]
    kinds = []
    for answer in answers:
        assert answer.status_code == 201, answer.text
        judge_task(answer.json()["id"], settings, "cpu")
        task = client.get(f"/api/tasks/{answer.json()['id']}").json()
        assert task["status"] == "finished", task["error"]
        kinds.append((task["results"]["task"], task["results"]["metric"], task["results"]["similarity"]))
        assert client.get(f"/tasks/{task['id']}").status_code == 200
    expected = [("labels", "knn_accuracy", "cosine"), ("pairs", "spearman", "dot")]
    assert kinds == [*expected, ("compression", "overlap@10", "euclidean")]


def test_invalid_task_is_refused_at_its_field(client, corpus, add, numbers, qrels):
    cases = [
        ({"kind": "queries"}, None, "file", "relevance"),
        ({"kind": "queries"}, ["query-id\tcorpus-id", "q0\td0"], "queries_id", "Choose the embedding"),
        ({"kind": "pairs"}, None, "file", "pairs"),
        ({"kind": "pairs"}, ["one,score", "d0,1"], "file", "two columns of ids"),
        ({"kind": "pairs"}, ["a,b,score", "x0,x1,1"], "file", "choose another column of ids"),
        ({"kind": "labels"}, None, "labels", "Choose the column"),
        ({"kind": "labels", "labels": "color"}, None, "labels", "has no column 'color'"),
        ({"kind": "labels", "labels": "side"}, ["a,b,score"], "file", "takes no file"),
        ({"kind": "labels", "labels": "side", "metric": "mrr@10"}, None, "metric", "knn_accuracy"),
        ({"kind": "compression", "tolerance": "2"}, None, "tolerance", "up to 1"),
        ({"kind": "compression", "groups": "x"}, None, "groups", "has no column 'x'"),
        ({"kind": "other"}, None, "kind", "queries"),
        ({"kind": "compression", "labels": "side"}, None, "labels", "takes no labels"),
        ({"kind": "compression", "query_ids": "_id"}, None, "query_ids", "no queries"),
        ({"kind": "labels", "labels": "side", "queries_id": "own"}, None, "queries_id", "takes no queries"),
        ({"kind": "pairs", "groups": "story"}, ["a,b,score", "d0,d1,1"], "groups", "no column 'story'"),
        ({"kind": "pairs", "ids": "side"}, ["a,b,score", "a,b,1"], "ids", "names"),
    ]  # fmt: skip
    for fields, lines, field, word in cases:
        form_fields = {name: corpus if value == "own" else value for name, value in fields.items()}
        refused = request_task(client, corpus, form_fields.pop("kind"), lines, "file.csv", **form_fields)
        assert refused.status_code in (415, 422), refused.text
        problem = refused.json()
        assert field in {problem.get("field"), *(error["field"] for error in problem.get("errors", []))}
        assert word in refused.text
    narrow = request_task(client, corpus, "queries", qrels, queries_id=add("n", numbers[1][:, :5]))
    assert (narrow.status_code, narrow.json()["field"]) == (422, "queries_id")
    assert "5 dimensions" in narrow.json()["detail"]
    draft = request_task(
        client, corpus, "queries", qrels, queries_id=add("u", numbers[1], status=EmbeddingStatus.DRAFT)
    )
    assert (draft.status_code, draft.json()["field"]) == (422, "queries_id")
    assert "u is not measured" in draft.json()["detail"]
    large = request_task(client, corpus, "queries", qrels, queries_id=add("l", numbers[1], **{"n": 2**25}))
    assert (large.status_code, large.json()["field"]) == (413, "queries_id")
    assert "the limit of a task" in large.json()["detail"]
    broken = request_task(client, corpus, "queries", qrels, queries_id=add("b", numbers[1], n_left_out=2))
    assert (broken.status_code, broken.json()["field"]) == (422, "queries_id")
    assert "2 rows of b hold NaN" in broken.json()["detail"]


def test_tasks_are_cancelled_relaunched_or_fail(client, context, settings, corpus, queries, qrels):
    task = request_task(client, corpus, "labels", labels="side").json()["id"]
    assert Job(job_kinds.JUDGE, task) in list_waiting_jobs(context.sessions)
    with context.sessions.begin() as session:
        session.get_one(TaskRun, task).status = TaskStatus.RUNNING  # its worker was killed
    assert Job(job_kinds.JUDGE, task) in list_waiting_jobs(context.sessions)
    assert client.post(f"/api/tasks/{task}/cancel").json()["status"] == "cancelled"
    assert client.post(f"/api/tasks/{task}/cancel").status_code == 409
    assert client.get(f"/api/tasks/{task}/map.safetensors").status_code == 409
    judge_task(task, settings, "cpu")
    assert client.get(f"/api/tasks/{task}").json()["status"] == "cancelled"
    task = request_task(client, corpus, "queries", qrels[:20], queries_id=queries).json()
    judge_task(task["id"], settings, "cpu")
    failed = client.get(f"/api/tasks/{task['id']}").json()
    assert failed["status"] == "failed"
    assert "at least 25 independent groups" in failed["error"]
    assert "at least 25" in client.get(f"/tasks/{task['id']}").text
    assert client.post(f"/api/tasks/{task['id']}/launch").json()["status"] == "queued"


def test_scores_appear_while_judging_and_a_kill_leaves_no_result(client, settings, corpus, monkeypatch):
    monkeypatch.setattr("workers.job_rows.SECONDS_BETWEEN_WRITES", 0)
    monkeypatch.setattr("workers.tasks.default_variants", lambda setting: default_variants(setting)[:3])
    task = request_task(client, corpus, "labels", labels="side").json()["id"]
    snapshots = []

    def take_snapshots(killed_after):
        def decide_and_look(judging, variants, tolerance, progress):
            def report(variant_scores):
                progress(variant_scores)
                snapshots.append((client.get(f"/api/tasks/{task}").json(), client.get(f"/tasks/{task}").text))
                if len(snapshots) == killed_after:
                    raise KeyboardInterrupt

            return decide(judging, variants, tolerance, report)

        return decide_and_look

    monkeypatch.setattr("workers.tasks.decide", take_snapshots(2))
    with pytest.raises(KeyboardInterrupt):
        judge_task(task, settings, "cpu")
    snapshot, page = snapshots[-1]
    assert [variant["name"] for variant in snapshot["so_far"]] == ["as it is", "float16"]
    assert (snapshot["status"], snapshot["done"], snapshot["results"]) == ("running", 2, None)
    assert "Scores so far" in page
    assert page.index('<th scope="row" class="wrap">as it is') > 0
    assert f"{snapshot['so_far'][0]['choose']:.3f}" in page
    assert client.get(f"/api/tasks/{task}/map.safetensors").status_code == 409
    snapshots.clear()
    monkeypatch.setattr("workers.tasks.decide", take_snapshots(1))
    with pytest.raises(KeyboardInterrupt):
        judge_task(task, settings, "cpu")
    assert len(snapshots[0][0]["so_far"]) == 1, "a new attempt starts without scores"
    cancelled = client.post(f"/api/tasks/{task}/cancel").json()
    assert (cancelled["so_far"], cancelled["results"]) == ([], None)
    assert "Scores so far" not in client.get(f"/tasks/{task}").text
    assert client.post(f"/api/tasks/{task}/launch").json()["so_far"] == []
    monkeypatch.setattr("workers.tasks.decide", take_snapshots(None))
    judge_task(task, settings, "cpu")
    finished = client.get(f"/api/tasks/{task}").json()
    assert (finished["status"], finished["so_far"]) == ("finished", [])
    scores = [variant["choose"] for variant in snapshots[-1][0]["so_far"]]
    assert scores == [variant["choose"]["value"] for variant in finished["results"]["variants"]]


@pytest.mark.both_databases
def test_deletion_and_new_selection_remove_tasks_and_files(client, context, corpus, queries, qrels):
    task = request_task(client, corpus, "queries", qrels, queries_id=queries, launch="false").json()
    assert task["status"] == "draft"
    n_files = len(list(context.storage.list_files()))
    assert client.delete(f"/api/tasks/{task['id']}").status_code == 204
    assert len(list(context.storage.list_files())) == n_files - 1
    task = request_task(client, corpus, "queries", qrels, queries_id=queries, launch="false").json()
    with context.sessions() as session:
        selection = session.get_one(Embedding, corpus).selection
    assert client.put(f"/api/embeddings/{corpus}/selection", json=selection).status_code == 200
    assert client.get(f"/api/tasks/{task['id']}").status_code == 404
    assert len(list(context.storage.list_files())) == n_files - 1


@pytest.mark.both_databases
def test_list_shows_conclusions_without_reading_results(client, context, corpus):
    results = {"conclusion": "Take it.", "of": "an earlier version"}
    with context.sessions.begin() as session:
        task = TaskRun(embedding_id=corpus, config=TaskConfig(kind=TruthKind.COMPRESSION), status=TaskStatus.FINISHED)
        session.add(task)
        session.add(TaskRun(embedding_id=corpus, config=task.config, created_at=datetime(2020, 1, 1, tzinfo=UTC)))
        session.flush()
        update = text("UPDATE task_runs SET results = :results WHERE id = :id")
        session.execute(update, {"results": json.dumps(results), "id": task.id})
    default_variants, draft = client.get(f"/api/embeddings/{corpus}/tasks").json()
    assert (default_variants["conclusion"], default_variants["config"]["kind"]) == ("Take it.", "compression")
    assert (draft["status"], draft["conclusion"]) == ("draft", None)
    assert "Take it." in client.get(f"/embeddings/{corpus}/tasks").text


def test_list_has_pages(client, context, corpus):
    with context.sessions.begin() as session:
        for number in range(60):
            config = TaskConfig(kind=TruthKind.COMPRESSION, seed=number)
            when = datetime(2020, 1, 1, 0, number, tzinfo=UTC)
            session.add(TaskRun(embedding_id=corpus, config=config, created_at=when))
    path = f"/embeddings/{corpus}/tasks"
    pages = (client.get(f"{path}?page={page}").text for page in (1, 2, 9))
    first, second, beyond = (page.partition('id="all"')[2].partition("</section>")[0] for page in pages)
    assert (first.count('<th scope="row"'), second.count('<th scope="row"'), beyond) == (50, 10, second)
    assert f'href="{path}?kind=queries&amp;page=2"' in first
    assert "Page 2 of 2" in second
    tasks = client.get(f"/api{path}", params={"limit": 2, "offset": 1}).json()
    assert [task["config"]["seed"] for task in tasks] == [58, 57]
