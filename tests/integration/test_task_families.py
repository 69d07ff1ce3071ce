from functools import partial

import numpy as np
import pytest

from app.context import PAGE_ROWS
from app.db.models import Embedding, EmbeddingStatus, Encoding, EncodingStatus, Pooling, StoredFile, TaskRun
from isotropy.tasks.variants import default_variants
from tests.task_rows import add_rows
from workers.tasks import judge_task

N, M, D, LAYERS = 300, 150, 8, 6
QRELS = "qrels.tsv"


@pytest.fixture(autouse=True)
def few_variants(monkeypatch):
    """Judge only the first three variants: all of them take long."""
    monkeypatch.setattr("workers.tasks.default_variants", lambda setting: default_variants(setting)[:3])


@pytest.fixture(scope="module")
def numbers():
    """A corpus and queries near some of its rows, by layer. The first layer has the most noise."""
    random = np.random.default_rng(3)
    corpus = random.normal(size=(N, D))
    relevant = random.integers(0, N, M)
    queries = corpus[relevant] + 0.4 * random.normal(size=(M, D))
    noise = random.normal(size=(N, D)), random.normal(size=(M, D))
    blur = [1.0, 0.8, 0.6, 0.4, 0.2, 0.0]
    strong = np.linspace(6, 1, LAYERS)[:, None] * np.eye(D)[0] + (1 - np.eye(D)[0])
    layers = [
        tuple(((x + b * e) * s).astype(np.float32) for x, e in zip((corpus, queries), noise, strict=True))
        for b, s in zip(blur, strong, strict=True)
    ]
    return layers, relevant


@pytest.fixture
def qrels(numbers):
    return "\n".join(["query-id\tcorpus-id\tscore", *(f"q{row}\td{doc}\t1" for row, doc in enumerate(numbers[1]))])


@pytest.fixture
def add_layers(context, tmp_path, numbers):
    """Encode texts: add an encoding whose layers are measured; return the ids of its embeddings by layer."""

    def add_layers(side, prefix, model="bert", layers=range(LAYERS), texts=None):
        encoding = Encoding(name=prefix, filename="t.txt", n_texts=1, columns=[], status=EncodingStatus.FINISHED)
        with context.sessions.begin() as session:
            encoding.file_sha256 = "0" * 64
            session.merge(StoredFile(sha256="0" * 64, size_bytes=1))
            session.flush()
            session.add(encoding)
        info = {"model": model, "file_sha256": texts or prefix, "text_columns": ["text"], "max_rows": None, "seed": 0}
        columns = {"encoding_id": encoding.id, "pooling": Pooling.MEAN, "provenance": info}
        names = {layer: f"{prefix} · {model} · layer {layer}, mean" for layer in layers}
        add = partial(add_rows, context, tmp_path, prefix)
        return [add(numbers[0][layer][side], name, layer=layer, **columns) for layer, name in names.items()]

    return add_layers


def start_task(client, qrels, corpus, queries, **settings):
    form = {"kind": "queries", "queries_id": queries, **settings}
    response = client.post(f"/api/embeddings/{corpus}/tasks", data=form, files={"file": (QRELS, qrels.encode())})
    assert response.status_code == 201, response.text
    return response.json()["id"]


def judge(settings, *task_ids):
    for task_id in task_ids:
        judge_task(task_id, settings, "cpu")


def test_every_layer_is_judged_with_queries_of_its_layer(client, context, add_layers, qrels, settings):
    corpus, queries = add_layers(0, "d"), add_layers(1, "q")
    task = start_task(client, qrels, corpus[2], queries[2])
    judge(settings, task)
    page = client.get(f"/tasks/{task}").text
    assert ("figure-embeddings" in page, 'name="every_layer"' in page) == (False, True)
    assert client.post(f"/tasks/{task}/others", data={"every_layer": "true"}).status_code == 303
    family = client.get(f"/api/tasks/{task}/family").json()
    assert [member["layer"] for member in family["members"]] == list(range(LAYERS))
    assert [member["embedding_id"] for member in family["members"]] == corpus
    with context.sessions() as session:
        rows = {row.embedding_id: row for row in session.query(TaskRun)}
    assert [rows[embedding_id].queries_id for embedding_id in corpus] == queries
    assert len({row.truth_sha256 for row in rows.values()}) == 1
    assert "5 embeddings are being judged." in client.get(f"/tasks/{task}").text

    judge(settings, *(member["task_id"] for member in family["members"] if member["task_id"] != task))
    family = client.get(f"/api/tasks/{task}/family").json()
    assert {member["status"] for member in family["members"]} == {"finished"}, family
    scores = [member["as_it_is"]["report"]["value"] for member in family["members"]]
    assert scores == sorted(scores)
    assert family["relation"] == {"embeddings": 6, "rho": pytest.approx(1), "p": None}
    page = client.get(f"/tasks/{task}").text
    assert "IsoScore and nDCG@10 have Spearman rho = 1.0. Layers of one model depend" in page
    assert "Judge every layer" not in page
    other_task_id = family["members"][0]["task_id"]
    assert f'href="/tasks/{other_task_id}"' in page
    table = client.get(f"/tasks/{other_task_id}/figures/embeddings.csv").text.splitlines()
    assert table[0].startswith("embedding,layer,variant")
    assert 'layer 0, mean",0,as it is' in table[1]
    again = client.post(f"/api/tasks/{other_task_id}/others", json={})
    assert (again.status_code, len(again.json()["members"])) == (201, LAYERS)


def test_layer_without_queries_is_left_out(client, add_layers, qrels, settings):
    corpus, queries = add_layers(0, "d"), add_layers(1, "q", layers=range(4))
    task = start_task(client, qrels, corpus[0], queries[0])
    judge(settings, task)
    family = client.post(f"/api/tasks/{task}/others", json={}).json()
    assert [member["layer"] for member in family["members"]] == [0, 1, 2, 3]
    assert [entry["embedding_id"] for entry in family["left_out"]] == corpus[4:]
    assert "no partner of layer 4, mean" in family["left_out"][0]["reason"]
    assert "has no partner of layer 5, mean" in client.get(f"/tasks/{task}").text


def test_other_model_of_same_texts_is_judged_with_its_queries(client, context, add_layers, qrels, settings):
    corpus, queries = add_layers(0, "d", layers=[1]), add_layers(1, "q", layers=[1])
    other_corpus, others_queries = add_layers(0, "d", "gpt", [1]), add_layers(1, "q", "gpt", [1])
    stranger = add_layers(0, "d", "t5", [1], texts="other texts")
    task = start_task(client, qrels, corpus[0], queries[0])
    judge(settings, task)
    page = client.get(f"/tasks/{task}").text
    assert f'value="{other_corpus[0]}"' in page
    assert f'value="{stranger[0]}"' not in page
    assert client.post(f"/tasks/{task}/others", data={"others": other_corpus}).status_code == 303
    members = client.get(f"/api/tasks/{task}/family").json()["members"]
    with context.sessions() as session:
        assert session.get_one(TaskRun, members[1]["task_id"]).queries_id == others_queries[0]
    judge(settings, members[1]["task_id"])
    page = client.get(f"/tasks/{task}").text
    assert "A rank correlation needs at least 5 embeddings." in page
    assert "figure-embeddings" in page


def test_same_file_and_settings_form_one_family(client, add_layers, qrels):
    corpus, queries = add_layers(0, "d"), add_layers(1, "q")
    first = start_task(client, qrels, corpus[0], queries[0])
    same = start_task(client, qrels, corpus[1], queries[1], metric="ndcg@10")
    start_task(client, qrels, corpus[2], queries[2], seed="1")
    start_task(client, qrels, corpus[3], queries[3], metric="mrr@10")
    members = client.get(f"/api/tasks/{first}/family").json()["members"]
    assert [member["embedding_id"] for member in members] == corpus[:2]
    assert client.get(f"/api/tasks/{same}").json()["family_id"] == first
    assert client.delete(f"/api/tasks/{first}").status_code == 204
    assert len(client.get(f"/api/tasks/{same}/family").json()["members"]) == 1
    joined = start_task(client, qrels, corpus[4], queries[4])
    assert client.get(f"/api/tasks/{joined}").json()["family_id"] == first


@pytest.fixture
def labeled(client, context, tmp_path, numbers, settings):
    add = partial(add_rows, context, tmp_path)
    corpus = add("d", numbers[0][0][0], "first")
    task_id = client.post(f"/api/embeddings/{corpus}/tasks", data={"kind": "labels", "labels": "side"}).json()["id"]
    judge(settings, task_id)
    return task_id, add


def test_labels_and_queries_of_uploads_are_judged(client, labeled, numbers, settings, context, tmp_path, qrels):
    task, add = labeled
    other_corpus = add("d", numbers[0][5][0], "second")
    possible = f"/api/embeddings/{other_corpus}/tasks/possible"
    assert client.get(possible).json() == [{"task_id": task, "name": "side", "embedding": "first"}]
    page = client.get(f"/embeddings/{other_corpus}/tasks").text
    assert f'action="/tasks/{task}/others"><input type="hidden" name="others" value="{other_corpus}">' in page
    answer = client.post(f"/api/tasks/{task}/others", json={"others": [{"embedding_id": other_corpus}]})
    assert answer.status_code == 201, answer.text
    with context.sessions.begin() as session:
        original = session.get_one(TaskRun, task)
        copied = {
            "embedding_id": original.embedding_id,
            "config": original.config,
            "status": original.status,
            "family_id": task,
        }
        session.add_all(TaskRun(**copied) for _ in range(PAGE_ROWS))
    assert client.get(possible).json() == []
    page = client.get(f"/embeddings/{other_corpus}/tasks").text
    assert "A task is judging these vectors." in page
    assert 'hx-select="#all" hx-select-oob="#remedies:outerMorph"' in page
    judge(settings, answer.json()["members"][1]["task_id"])
    members = client.get(f"/api/tasks/{task}/family").json()["members"]
    expected = [("first", "finished", None), ("second", "finished", None)]
    assert [(member["name"], member["status"], member["layer"]) for member in members] == expected
    figure = client.get(f"/api/tasks/{task}/figures/embeddings").json()
    assert figure["title"] == "Isotropy against performance"
    corpus, queries = add("d", numbers[0][0][0], "corpus"), add("q", numbers[0][0][1], "queries")
    other_corpus, others_queries = add("d", numbers[0][5][0], "corpus 2"), add("q", numbers[0][5][1], "queries 2")
    task = start_task(client, qrels, corpus, queries)
    judge(settings, task)
    assert "Which queries belong to corpus 2 is not known." in client.get(f"/tasks/{task}").text
    body = {"others": [{"embedding_id": other_corpus, "queries_id": others_queries}]}
    assert client.post(f"/api/tasks/{task}/others", json=body).status_code == 201
    assert len(client.get(f"/api/tasks/{task}/family").json()["members"]) == 2


def test_embedding_that_does_not_match_is_refused(client, labeled, context, numbers):
    task, _ = labeled
    with context.sessions() as session:
        corpus = session.query(Embedding).one().id
    response = client.post(f"/api/tasks/{task}/others", json={})
    assert (response.status_code, response.json()["field"]) == (422, "others")
    assert "has no other layers" in response.text
    page_response = client.post(f"/tasks/{task}/others")
    assert (page_response.status_code, "Choose at least one embedding." in page_response.text) == (422, True)
    with_queries = {"others": [{"embedding_id": corpus, "queries_id": corpus}]}
    assert "takes no queries" in client.post(f"/api/tasks/{task}/others", json=with_queries).text
    gone = {"others": [{"embedding_id": "0" * 32}]}
    assert client.post(f"/api/tasks/{task}/others", json=gone).status_code == 404
    plain = client.post(f"/api/embeddings/{corpus}/tasks", data={"kind": "compression"}).json()["id"]
    refused = client.post(f"/api/tasks/{plain}/others", json={})
    assert (refused.status_code, "Compression has no ground truth" in refused.text) == (422, True)
    cases = [
        ({"status": EmbeddingStatus.DRAFT}, "is not measured"), ({"n": 7}, "has 7 rows"),
        ({"n_left_out": 2}, "hold NaN"), ({"independent": {"names_in_any_order": "x"}}, "has different rows from"),
        ({"inspection": {"annotations": []}}, "has no column 'side'"),
    ]  # fmt: skip
    task, add = labeled
    with context.sessions.begin() as session:
        first = session.query(Embedding).one()
        first.independent = {"names_in_any_order": "y"}
    for columns, words in cases:
        other_corpus = add("d", numbers[0][1][0], "other", **columns)
        refused = client.post(f"/api/tasks/{task}/others", json={"others": [{"embedding_id": other_corpus}]})
        assert (refused.status_code, refused.json()["field"]) == (422, "others")
        assert words in refused.json()["detail"]
