import gzip
import io
import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from app.core.process import BUNDLED_MODEL
from app.core.settings import Settings
from app.db.models import Embedding, Qrels, StoredFile
from benchmarks._encoded_texts import DATA
from tests.queries import count_rows
from workers.embeddings.encoding import encode_texts
from workers.tasks import judge_task

DOCUMENTS, QUERIES = 120, 60
SPLIT = {"kind": "queries", "split": "test"}
CONFIG = {"model": "tiny-bert", "text_columns": ["text"]}
WORDS = ["film", "plot", "cast", "good", "bad", "dull", "great", "very", "so", "the"]


@pytest.fixture
def settings(tmp_path: Path, models_dir: Path, database: dict[str, str]) -> Settings:
    return Settings(data_dir=tmp_path / "data", models_dir=models_dir, sample=False, **database)


@pytest.fixture(scope="module")
def beir():
    """BEIR's three files: some documents without a title, one without a text, ids that are not row numbers."""
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(WORDS, 6)) + f" {row}" for row in range(DOCUMENTS)]
    texts[5] = ""
    relevant = list(enumerate(random.permutation(np.arange(6, DOCUMENTS))[:QUERIES]))
    corpus = [{"_id": f"MED-{7 * row}", "title": "", "text": text, "metadata": {}} for row, text in enumerate(texts)]
    queries = [{"_id": f"PLAIN-{row}", "text": texts[text], "metadata": {"url": "x"}} for row, text in relevant]
    qrels = ["query-id\tcorpus-id\tscore", *(f"PLAIN-{row}\tMED-{7 * text}\t2" for row, text in relevant)]
    lines = ["\n".join(map(json.dumps, rows)).encode() for rows in (corpus, queries)]
    return {"corpus.jsonl": lines[0], "queries.jsonl": lines[1], "test.tsv": "\n".join(qrels).encode()}


def make_zip(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(f"scifact/qrels/{name}" if name.endswith(".tsv") else f"scifact/{name}", content)
    return buffer.getvalue()


@pytest.fixture
def encode_and_measure(client, settings, work):
    """Encode an uploaded data set and measure it; return corpus, queries and the layer of each."""

    def encode_and_measure(files, model="tiny-bert", layer=2):
        draft = client.post("/api/encodings", files=files)
        assert draft.status_code == 201, draft.text
        corpus = draft.json()
        queries = corpus["qrels"][0]["queries_id"]
        config = CONFIG | {"model": model, "layers": [layer], "max_rows": None}
        answer = client.post(f"/api/encodings/{corpus['id']}/launch", json=config)
        assert answer.status_code == 200, answer.text
        layers = [encode_texts(row, settings, "cpu")[0].row_id for row in (corpus["id"], queries)]
        work()
        return corpus, queries, *layers

    return encode_and_measure


@pytest.mark.sandbox
def test_zip_file_is_encoded_and_judged(client, context, settings, encode_and_measure, beir):
    corpus, queries, documents, questions = encode_and_measure({"file": ("scifact.zip", make_zip(beir))})
    assert (corpus["name"], corpus["n_texts"], corpus["status"]) == ("scifact", DOCUMENTS, "draft")
    assert corpus["qrels"] == [{"split": "test", "judgments": QUERIES, "queries_id": queries}]
    answer = client.get(f"/api/encodings/{queries}").json()
    assert (answer["name"], answer["n_texts"], answer["qrels"]) == ("scifact, queries", QUERIES, [])
    assert (answer["config"]["layers"], answer["config"]["max_rows"]) == ([2], None)
    page = client.get(f"/embeddings/{documents}/tasks").text
    assert "test (60 judgments)" in page
    lone = client.post("/api/encodings", files={"file": ("corpus.jsonl", beir["corpus.jsonl"])}).json()["id"]
    assert client.post(f"/api/encodings/{lone}/launch", json=CONFIG | {"layers": [2]}).status_code == 200
    for embedding_id in (documents, encode_texts(lone, settings, "cpu")[0].row_id):
        lines = client.get(f"/api/embeddings/{embedding_id}/files/1").text.splitlines()
        ids = [json.loads(line)["id"] for line in lines[4:6]]
        assert ids == ["MED-28", "MED-42"], "the row without a text is dropped"
    with context.sessions() as session:
        assert session.get_one(Embedding, documents).selection["names"] == "name"
    checked = client.post(f"/embeddings/{documents}/tasks", data=SPLIT)
    assert checked.status_code == 303, checked.text
    url, qrels = f"/api/embeddings/{documents}/tasks", {"file": ("test.tsv", beir["test.tsv"])}
    uploaded = client.post(url, data={"kind": "queries", "queries_id": questions}, files=qrels).json()
    for address in (checked.headers["location"], f"/tasks/{uploaded['id']}"):
        preview = client.get(f"/api{address}").json()["preview"]
        assert (preview["lines"], preview["used"], preview["unknown"]) == (QUERIES, QUERIES, [])
    for task in (client.post(url, data=SPLIT).json(), uploaded):
        judge_task(task["id"], settings, "cpu")
        finished = client.get(f"/api/tasks/{task['id']}").json()
        assert finished["status"] == "finished", finished["error"]
        assert finished["results"]["variants"][0]["report"]["value"] > 0.9, "queries are the texts of their documents"
    wrong = client.post(url, data=SPLIT | {"split": "dev"})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "split")
    assert "no qrels of the split 'dev'" in wrong.json()["detail"]
    none = client.post(f"/api/embeddings/{questions}/tasks", data=SPLIT).json()
    assert "came without qrels" in none["detail"]
    assert "either a file or a split" in client.post(url, data=SPLIT, files=qrels).json()["detail"]
    client.delete(f"/api/embeddings/{questions}")
    gone = client.post(f"/embeddings/{documents}/tasks", data=SPLIT)
    assert gone.status_code == 422
    assert "queries of this data set are not measured" in gone.text


def test_folder_is_data_set_and_is_deleted_with_its_files(client, context, beir):
    files = [("file", (name, content)) for name, content in beir.items()]
    files.append(("file", ("dev.tsv", b"query-id\tcorpus-id\tscore\nPLAIN-0\tMED-7\t1\n")))
    path = client.post("/encodings", files=files, data={"name": "NFCorpus"}).headers["location"]
    page, corpus = client.get(path), client.get(f"/api{path}").json()
    assert [(row["split"], row["judgments"]) for row in corpus["qrels"]] == [("test", QUERIES), ("dev", 1)]
    assert "60 queries" in page.text
    assert '<option value="text" selected>' in page.text, "an id column holds no texts"
    assert '<option value="_id" selected>' not in page.text
    plan = client.post(f"/api/encodings/{corpus['id']}/plan", json=CONFIG | {"layers": [1]}).json()
    assert (plan["rows"], plan["queries"]) == (DOCUMENTS, QUERIES)
    assert count_rows(context, Qrels) == 2
    client.delete(f"/api/encodings/{corpus['qrels'][0]['queries_id']}")
    assert client.get(f"/api/encodings/{corpus['id']}").json()["qrels"] == []
    assert client.get(f"/encodings/{corpus['id']}").status_code == 200
    client.delete(f"/api/encodings/{corpus['id']}")
    assert count_rows(context, Qrels) == count_rows(context, StoredFile) == 0


def test_incomplete_data_set_is_rejected_and_not_stored(client, context, beir):
    files = {name: content for name, content in beir.items() if name != "queries.jsonl"}
    for sent in ({"file": ("scifact.zip", make_zip(files))}, [("file", row) for row in files.items()]):
        refused = client.post("/api/encodings", files=sent)
        assert (refused.status_code, refused.json()["field"]) == (422, "file")
        assert "There is no queries.jsonl" in refused.json()["detail"]
    assert count_rows(context, StoredFile) == 0


@pytest.mark.long
@pytest.mark.skipif(DATA is None, reason="ISOSCOPE_BENCH_DATA is unset: no reference data")
def test_squad_questions_find_their_paragraphs(client, settings, encode_and_measure):
    paragraphs, questions = {}, []
    with gzip.open(Path(DATA) / "squad" / "validation.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            index = paragraphs.setdefault(row["context"], len(paragraphs))
            if index >= 100:
                break
            questions.append((row["id"], row["question"], index))
    questions = questions[::8]
    corpus = [{"_id": f"p{index}", "title": "", "text": text} for text, index in paragraphs.items() if index < 100]
    files = {
        "corpus.jsonl": "\n".join(map(json.dumps, corpus)),
        "queries.jsonl": "\n".join(json.dumps({"_id": name, "text": text}) for name, text, _ in questions),
        "test.tsv": "query-id\tcorpus-id\tscore\n" + "\n".join(f"{q[0]}\tp{q[2]}\t1" for q in questions),
    }
    *_, documents, answer = encode_and_measure({"file": ("squad.zip", make_zip(files))}, BUNDLED_MODEL, 6)
    task = client.post(f"/api/embeddings/{documents}/tasks", data=SPLIT).json()
    assert task["preview"]["used"] == len(questions) > 50
    judge_task(task["id"], settings, "cpu")
    results = client.get(f"/api/tasks/{task['id']}").json()["results"]
    x, y = (
        np.load(io.BytesIO(client.get(f"/api/embeddings/{value}/vectors.npy").content)) for value in (documents, answer)
    )
    x, y = (value / np.linalg.norm(value, axis=1, keepdims=True) for value in (x, y))
    relevant = np.array([index for *_, index in questions])
    cosines = y @ x.T
    rank = (cosines > cosines[np.arange(len(y)), relevant][:, None]).sum(axis=1)
    ndcg = np.where(rank < 10, 1 / np.log2(rank + 2), 0).mean()
    reported = results["variants"][0]["report"]
    assert (results["metric"], results["n"]) == ("ndcg@10", 100)
    assert reported["low"] < ndcg < reported["high"], "ndcg uses all questions, the report only a part"


def test_layers_of_labeled_texts_are_ranked_automatically(client, settings, work):
    random = np.random.default_rng(1)
    texts = [f"{' '.join(random.choice(WORDS, 6))} {row}" for row in range(DOCUMENTS)]
    lines = ["text\tlabel", *(f"{text}\t{'yes' if 'good' in text else 'no'}" for text in texts)]
    encoding = client.post("/api/encodings", files={"file": ("texts.tsv", "\n".join(lines).encode())}).json()
    config = CONFIG | {"label_column": "label"}
    assert client.post(f"/api/encodings/{encoding['id']}/launch", json=config).status_code == 200
    jobs = encode_texts(encoding["id"], settings, "cpu")
    work()
    tasks = [client.get(f"/api/embeddings/{job.row_id}/tasks").json()[0]["id"] for job in jobs]
    family = client.get(f"/api/tasks/{tasks[0]}/family").json()
    scores = {row["task_id"]: row["chosen"]["choose"]["value"] for row in family["members"]}
    ranking = (
        client.get(f"/encodings/{encoding['id']}").text.partition('id="ranking-title"')[2].partition("</section>")[0]
    )
    ranked = [scores[task] for task in re.findall(r'href="/tasks/(\w+)"', ranking)]
    assert ranked == sorted(scores.values(), reverse=True)
    assert re.search("Layer [0-2] is best: |None is clearly best. Layer [0-2] ranks first", ranking)
    assert re.sub(r"texts · tiny-bert · layer (\d), mean", r"Layer \1", family["conclusion"]) in ranking
