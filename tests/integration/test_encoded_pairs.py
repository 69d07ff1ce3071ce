"""A file of scored text pairs becomes layers that these pairs judge, each with a cutoff."""

import csv
import io
import re
from pathlib import Path

import numpy as np
import pytest

from app.core.settings import Settings
from workers.embeddings.encoder import load_texts
from workers.embeddings.encoding import EncodingConfig, encode_texts

WORDS = ["film", "plot", "cast", "good", "bad", "dull", "great", "very", "so", "the"]
PAIRS = 300
CONFIG = {"model": "tiny-bert", "text_columns": ["a", "b"], "score_column": "score"}


@pytest.fixture
def settings(tmp_path: Path, models_dir: Path, database: dict[str, str]) -> Settings:
    return Settings(data_dir=tmp_path / "data", models_dir=models_dir, sample=False, **database)


def write_csv(rows):
    buffer = io.StringIO()
    csv.writer(buffer).writerows([("a", "b", "score", "constant"), *((*row, 1) for row in rows)])
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
    encoding_id = path.removeprefix("/encodings/").partition("?")[0]
    plan = client.post(f"/api/encodings/{encoding_id}/plan", json=CONFIG | {"layers": [1, 2]}).json()
    assert (plan["rows"], plan["embeddings"]) == (2 * PAIRS, 2)
    assert client.post(f"/api/encodings/{encoding_id}/launch", json=CONFIG | {"layers": [1, 2]}).status_code == 200
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
    page = client.get(path).text
    assert "Layers by Spearman" in page
    assert "Choose a cutoff for layer" in page


def test_each_text_is_a_row_and_rows_without_score_are_left_out(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_bytes(write_csv([("x", "y", "0.5"), ("y", "z", ""), ("z", "x", " 4 "), ("z", "z", "5")]))
    texts = load_texts(path, path.name, EncodingConfig.model_validate(CONFIG))
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
        ({"score_column": None, "match": 3}, "match", "Choose the column of scores"),
    ],
)
def test_wrong_columns_of_pairs_are_named(client, settings, pairs_file, changes, field, sentence):
    encoding_id = client.post("/api/encodings", files={"file": ("pairs.csv", pairs_file)}).json()["id"]
    answer = client.post(f"/api/encodings/{encoding_id}/launch", json=CONFIG | changes)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert sentence in answer.json()["detail"]
