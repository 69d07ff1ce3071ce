"""From texts to a decision: BEIR's corpus and queries encoded, judged by its qrels without renaming anything."""

import json
from pathlib import Path

import numpy as np
import pytest

from app.core.settings import Settings
from app.db.models import Embedding
from workers.encodings.job import encode_texts
from workers.tasks import judge_task

DOCUMENTS, QUERIES = 120, 60
WORDS = ["film", "plot", "cast", "good", "bad", "dull", "great", "very", "so", "the"]


@pytest.fixture
def settings(tmp_path: Path, models_dir: Path, database: dict[str, str]) -> Settings:
    return Settings(data_dir=tmp_path / "data", models_dir=models_dir, sample=False, **database)


@pytest.fixture(scope="module")
def beir():
    """BEIR's three files: some documents without a title, one without a text, ids that are no row numbers."""
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(WORDS, 6)) + f" {row}" for row in range(DOCUMENTS)]
    texts[5] = ""
    corpus = [{"_id": f"MED-{7 * row}", "title": "", "text": one, "metadata": {}} for row, one in enumerate(texts)]
    relevant = random.permutation(np.arange(6, DOCUMENTS))[:QUERIES]
    queries = [
        {"_id": f"PLAIN-{row}", "text": texts[one], "metadata": {"url": "x"}} for row, one in enumerate(relevant)
    ]
    qrels = ["query-id\tcorpus-id\tscore", *(f"PLAIN-{row}\tMED-{7 * one}\t2" for row, one in enumerate(relevant))]
    lines = ["\n".join(map(json.dumps, rows)).encode() for rows in (corpus, queries)]
    return {"corpus.jsonl": lines[0], "queries.jsonl": lines[1], "test.tsv": "\n".join(qrels).encode()}


@pytest.fixture
def encoded(client, context, settings, beir):
    """Encode a file of BEIR; return the id of its last layer, taken as measured."""

    def encoded(filename):
        draft = client.post("/api/encodings", files={"file": (filename, beir[filename])}).json()
        config = {"model": "tiny-bert", "text_columns": ["text"], "layers": [2]}
        launched = client.post(f"/api/encodings/{draft['id']}/launch", json=config)
        assert launched.status_code == 200, launched.text
        (job,) = encode_texts(draft["id"], settings, "cpu")
        return job.row_id

    return encoded


@pytest.mark.both_databases
def test_encoded_texts_are_judged_by_the_ids_of_beir(client, context, settings, work, encoded, beir):
    corpus, queries = encoded("corpus.jsonl"), encoded("queries.jsonl")
    work()
    rows = [json.loads(line) for line in client.get(f"/api/embeddings/{corpus}/files/1").text.splitlines()]
    assert [one["id"] for one in rows[4:6]] == ["MED-28", "MED-42"], "the one without a text is left out"
    with context.sessions() as session:
        assert session.get_one(Embedding, corpus).selection["names"] == "name"
    asked = client.post(
        f"/api/embeddings/{corpus}/tasks",
        data={"kind": "queries", "queries_id": queries},
        files={"file": ("test.tsv", beir["test.tsv"])},
    )
    assert asked.status_code == 201, asked.text
    preview = asked.json()["preview"]
    assert (preview["lines"], preview["used"], preview["unknown"]) == (QUERIES, QUERIES, [])
    judge_task(asked.json()["id"], settings, "cpu")
    found = client.get(f"/api/tasks/{asked.json()['id']}").json()
    assert found["status"] == "finished", found["error"]
    assert found["results"]["variants"][0]["report"]["value"] > 0.9, "queries are the texts of their documents"
