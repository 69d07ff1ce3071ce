import csv
import gzip
import io
import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from app.core.process import BUNDLED_MODEL
from app.db import job_kinds
from app.db.job_kinds import BACKGROUND_PRIORITY, Job, Queue
from app.db.models import Embedding, Lookup, Qrels, StoredFile
from app.db.work import list_waiting_jobs
from benchmarks._encoded_texts import DATA
from tests.cached_rows import make_once
from tests.queries import count_rows
from workers.embeddings.encoder import load_texts
from workers.embeddings.encoding import EncodingConfig, encode_texts
from workers.tasks import judge_task

pytestmark = pytest.mark.usefixtures("models_dir")

DOCUMENTS, QUERIES = 120, 60
SPLIT = {"kind": "queries", "split": "test"}
CONFIG = {"model": "tiny-bert", "text_columns": ["text"]}
WORDS = ["film", "plot", "cast", "good", "bad", "dull", "great", "very", "so", "the"]
PAIRS = 300
PAIRS_CONFIG = {"model": "tiny-bert", "text_columns": ["a", "b"], "score_column": "score"}


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
    page = client.get(f"/encodings/{encoding['id']}").text
    headline, _, ranking = page.partition("</section>")[0].partition('id="ranking-title"')
    ranked = [scores[task] for task in re.findall(r'href="/tasks/(\w+)"', ranking)]
    assert ranked == sorted(scores.values(), reverse=True)
    assert re.search("Layer [0-2] is best: |None is clearly best. Layer [0-2] ranks first", headline)
    assert re.sub(r"texts · tiny-bert · layer (\d), mean", r"Layer \1", family["conclusion"]) in headline


def write_csv(rows):
    buffer = io.StringIO()
    names = ("a", "b", "score", "constant", "rare")
    csv.writer(buffer).writerows([names, *((*row, 1, n if n < 2 else "") for n, row in enumerate(rows))])
    return buffer.getvalue().encode()


@pytest.fixture(scope="module")
def pairs_file():
    """Half the pairs are a text and the same words twice, which match; half are two random texts."""
    random = np.random.default_rng(0)
    rows = []
    for number in range(PAIRS):
        text, second_text = (" ".join(random.choice(WORDS, 6)) for _ in range(2))
        rows.append((text, f"{text} {text}", 1) if number % 2 else (text, second_text, 0))
    return write_csv(rows)


def test_scored_pairs_judge_every_layer_and_set_cutoffs(client, settings, work, pairs_file):
    path = client.post("/encodings", files={"file": ("pairs.csv", pairs_file)}).headers["location"]
    selected = re.findall(r'<option value="(\w+)" selected>', client.get(path).text)
    assert selected == ["a", "b", "score"], "proposed for two columns of texts and a score"
    for name, top, levels in (("stars", 1, 50), ("stars", 1, 2), ("stars", 100, 26), ("label", 2, 3), ("label", 1, 50)):
        rows = "".join(f"one text {n},another text {n},{top * (n % levels) / (levels - 1):.3g}\n" for n in range(99))
        url = client.post("/encodings", files={"file": ("p.csv", f"asked,known,{name}\n{rows}")}).headers["location"]
        selected = re.findall(r'<option value="(\w+)" selected>', client.get(url).text)
        assert selected == (["asked", "label"] if levels == 3 else ["asked", "known", name]), f"{levels} called {name}"
    encoding_id = path.removeprefix("/encodings/").partition("?")[0]
    two_layers = PAIRS_CONFIG | {"layers": [1, 2], "poolings": ["mean"], "match": 1}
    plan = client.post(f"/api/encodings/{encoding_id}/plan", json=two_layers).json()
    assert (plan["rows"], plan["embeddings"], plan["matches"]) == (2 * PAIRS, 2, PAIRS // 2)
    assert "Matches in the file, with at least the minimum score: 150." in client.get(path, params=two_layers).text
    assert client.post(f"/api/encodings/{encoding_id}/launch", json=two_layers).status_code == 200
    encode_texts(encoding_id, settings, "cpu")
    work()
    layers = client.get(f"/api/encodings/{encoding_id}/layers").json()
    assert {layer["status"] for layer in layers} == {"ready"}
    texts = {text for row in csv.DictReader(io.StringIO(pairs_file.decode())) for text in (row["a"], row["b"])}
    for layer in layers:
        assert layer["n"] == len(texts), "each text is encoded once"
        (task,) = client.get(f"/api/embeddings/{layer['embedding_id']}/tasks").json()
        results = client.get(f"/api/tasks/{task['id']}").json()["results"]
        assert results["calibration"]["pairs"]["labeled"] == PAIRS
        assert results["variants"][0]["report"]["value"] > 0.5
        assert f'href="/tasks/{task["id"]}#cutoff"' in client.get(f"/embeddings/{layer['embedding_id']}").text
    sections = "at most 5% of matches are missed, with .*Take at most 5% of non-matches as matches.*Layers by Spearman"
    assert re.search(sections, client.get(path).text, re.DOTALL)


def test_each_text_is_a_row_and_rows_without_score_are_left_out(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_bytes(write_csv([("x", "y", "0.5"), ("y", "z", ""), ("z", "x", " 4 "), ("z", "z", "5")]))
    texts = load_texts(path, path.name, EncodingConfig.model_validate(PAIRS_CONFIG))
    assert texts.rows == [("x",), ("y",), ("z",)]
    assert texts.row_numbers == [1, 1, 3]
    assert texts.ids == ["0", "1", "2"]
    assert texts.pairs == [("0", "1", 0.5, ""), ("2", "0", 4.0, ""), ("2", "2", 5.0, "")]
    assert texts.n_empty == 1


@pytest.mark.parametrize(
    ("changes", "field", "sentence"),
    [
        ({"text_columns": ["a"]}, "text_columns", "choose a second text column"),
        ({"text_columns": ["a", "score"]}, "score_column", "is a text column too"),
        ({"score_column": "constant"}, "score_column", "needs two different scores"),
        ({"text_columns": ["b", "constant"], "score_column": "a"}, "score_column", "which is no number"),
        ({"label_column": "score"}, "label_column", "choose labels or scores"),
        ({"max_rows": 24}, "max_rows", "Judging takes at least 25 scored pairs"),
        ({"score_column": "rare"}, "score_column", "2 rows of 300 have a score, and judging takes at least 25"),
        ({"score_column": None, "match": 3}, "match", "Choose the column of scores"),
    ],
)
def test_wrong_columns_of_pairs_are_named(client, settings, pairs_file, changes, field, sentence):
    encoding_id = client.post("/api/encodings", files={"file": ("pairs.csv", pairs_file)}).json()["id"]
    answer = client.post(f"/api/encodings/{encoding_id}/launch", json=PAIRS_CONFIG | changes)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert sentence in answer.json()["detail"]


TEXTS = [f"{adjective} {noun} film {number}" for number, adjective in enumerate(["good", "bad", "dull"]) for noun in (
    "plot", "cast",
)]  # fmt: skip
TEXTS += [" ".join(["very"] * (number + 1)) for number in range(40)]


@pytest.fixture
def encoded(client, context, settings, work, module_cache):
    def encode():
        lines = "\n".join(json.dumps({"text": text}) for text in TEXTS).encode()
        draft = client.post("/api/encodings", files={"file": ("texts.jsonl", lines)}).json()
        config = {"model": "tiny-bert", "text_columns": ["text"], "layers": [2], "poolings": ["mean"]}
        client.post(f"/api/encodings/{draft['id']}/launch", json=config)
        (job,) = encode_texts(draft["id"], settings, "cpu")
        work()
        return job.row_id

    return make_once(context, module_cache, "encoded", encode)


def test_text_is_encoded_like_the_rows_unless_weights_changed(client, encoded, work, context):
    url = f"/api/embeddings/{encoded}/neighbors"
    response = client.post(url, json={"text": TEXTS[3]})
    assert (response.status_code, response.json()["status"]) == (202, "queued")
    assert work() == 1
    lookup = client.get(url, params={"text": TEXTS[3]}).json()
    assert lookup["status"] == "ready", lookup["error"]
    results = lookup["results"]
    before = results["of"][0]["before"]
    assert (results["row"], results["rows"], results["of"][0]["name"]) == (None, len(TEXTS), TEXTS[3])
    assert (before[0]["row"], before[0]["name"]) == (3, TEXTS[3])
    assert before[0]["cosine"] == pytest.approx(1, abs=1e-5), "the same vector"
    vectors = np.load(io.BytesIO(client.get(f"/api/embeddings/{encoded}/vectors.npy").content))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit[3]
    assert [row["cosine"] for row in before] == pytest.approx(np.sort(cosines)[::-1][: len(before)], abs=1e-5)
    page = client.get(f"/embeddings/{encoded}", params={"tab": "map", "text": TEXTS[3]}).text
    assert f'data-near="{" ".join(str(row["row"]) for row in before)}"' in page
    response = client.post(f"/embeddings/{encoded}/neighbors", data={"text": "good film"})
    expected = (303, f"/embeddings/{encoded}?tab=map&text=good+film#near-text")
    assert (response.status_code, response.headers["location"]) == expected
    page = client.get(f"/embeddings/{encoded}", params={"text": "good film"}).text
    assert "once a worker has encoded the text" in page
    assert "tiny-bert, layer 2, mean pooling" in page
    with context.sessions.begin() as session:
        embedding = session.get_one(Embedding, encoded)
        embedding.provenance = {**embedding.provenance, "weights_sha256": {"model.safetensors": "0" * 64}}
    client.post(f"/api/embeddings/{encoded}/neighbors", json={"text": "good"})
    work()
    lookup = client.get(f"/api/embeddings/{encoded}/neighbors", params={"text": "good"}).json()
    assert lookup["status"] == "failed"
    assert "are not those that encoded these rows" in lookup["error"]


def test_lookup_needs_name_or_text_of_encoded_vectors(client, context, encoded, work):
    for query in [{}, {"name": "a", "text": "b"}]:
        refused = client.get(f"/api/embeddings/{encoded}/neighbors", params=query)
        assert (refused.status_code, "either the name of a row or a text" in refused.json()["detail"]) == (422, True)
        unknown = client.get(f"/api/embeddings/{encoded}/neighbors", params={"text": "king"})
        assert unknown.status_code == 404
        assert unknown.json()["detail"] == "Nobody has looked up 'king' in this embedding yet."
    for text in [" ", "x" * 1001]:
        refused = client.post(f"/api/embeddings/{encoded}/neighbors", json={"text": text})
        assert (refused.status_code, "a text of 1 to 1,000 characters" in refused.json()["detail"]) == (422, True)
    lines = "\n".join(f"{row},{row * row % 7},w{row}" for row in range(30))
    files = {"file": ("a.csv", f"x,y,word\n{lines}".encode())}
    upload_id = client.post("/api/embeddings?commit=auto", files=files).json()["id"]
    work()
    with context.sessions.begin() as session:
        embedding = session.get_one(Embedding, encoded)
        embedding.selection = {**embedding.selection, "names": None}
    for embedding_id, reason in ((upload_id, "not encoded here"), (encoded, "have no names")):
        refused = client.post(f"/api/embeddings/{embedding_id}/neighbors", json={"text": "good"})
        assert (refused.status_code, refused.json()["field"]) == (422, "text")
        assert reason in refused.json()["detail"]
        assert "Rows near a text" not in client.get(f"/embeddings/{embedding_id}", params={"tab": "map"}).text


def test_lookup_uses_lab_queue_and_is_deleted_with_embedding(client, context, encoded):
    client.post(f"/api/embeddings/{encoded}/neighbors", json={"text": "king"})
    with context.sessions() as session:
        job = Job(job_kinds.LOOKUP, session.query(Lookup).one().id)
    assert (job.kind.queue, job.priority) == (Queue.LAB, Job(job_kinds.POSTPROCESS, "a").priority)
    waiting_jobs = list_waiting_jobs(context.sessions)
    assert [waiting for waiting in waiting_jobs if waiting.kind.priority < BACKGROUND_PRIORITY] == [job]
    client.delete(f"/api/embeddings/{encoded}")
    client.delete("/api/trash")
    with context.sessions() as session:
        assert session.query(Lookup).all() == []
    assert job.workflow_id not in context.queue.list_active()
