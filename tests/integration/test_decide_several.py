import json

import numpy as np
import pytest

from isoscope.cli import main
from isotropy.tasks.variants import default_variants

N, M, D, LAYERS = 300, 150, 8, 5
NAMES = [f"layers[{layer}]" for layer in range(LAYERS)]
TASK = ("corpus.npz", "--queries", "queries.npz", "--qrels", "qrels.tsv")


@pytest.fixture(autouse=True)
def few_variants(monkeypatch):
    """Judge only the first three variants; the full list is slow and has its own tests."""
    monkeypatch.setattr("isoscope.decide.default_variants", lambda setting: default_variants(setting)[:3])


@pytest.fixture
def decide(tmp_path, monkeypatch, capsys):
    """Judge a corpus and queries of five layers, the first blurred the most, and qrels by row number."""
    random = np.random.default_rng(3)
    corpus = random.normal(size=(N, D))
    relevant = random.integers(0, N, M)
    queries = corpus[relevant] + 0.4 * random.normal(size=(M, D))
    for name, x in {"corpus": corpus, "queries": queries}.items():
        blur = np.linspace(1, 0, LAYERS)[:, None, None] * random.normal(size=(LAYERS, *x.shape))
        strong = np.linspace(6, 1, LAYERS)[:, None, None] * np.eye(D)[0] + (1 - np.eye(D)[0])
        layers = ((x + blur) * strong).astype(np.float32)
        np.savez(tmp_path / f"{name}.npz", layers=layers, narrow=layers[0, :, :4], few=layers[0, : len(x) // 2])
    lines = ["query-id\tcorpus-id\tscore", *(f"{row}\t{document}\t1" for row, document in enumerate(relevant))]
    (tmp_path / "qrels.tsv").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)

    def decide(names, *arguments):
        options = [part for name in names for part in ("--vectors", name)]
        code = main(["decide", *TASK, *options, *arguments])
        return capsys.readouterr(), code

    return decide


def test_json_has_each_embedding_and_rank_relation(decide):
    printed, code = decide(NAMES, "--json")
    assert code == 0, printed.err
    document = json.loads(printed.out)
    assert list(document) == ["task", "metric", "similarity", "embeddings", "relation", "conclusion"]
    assert [embedding["name"] for embedding in document["embeddings"]] == NAMES
    single = json.loads(decide(NAMES[3:4], "--json")[0].out)
    assert {name: value for name, value in document["embeddings"][3].items() if name != "name"} == single
    scores = [embedding["variants"][0]["report"]["value"] for embedding in document["embeddings"]]
    assert scores == sorted(scores)
    assert document["relation"] == {"embeddings": LAYERS, "rho": pytest.approx(1), "p": pytest.approx(1 / 60)}
    assert "the more isotropic score higher on nDCG@10" in document["conclusion"]


def test_table_has_line_per_embedding(decide):
    printed, code = decide([NAMES[4], "narrow"])
    assert code == 0, printed.err
    lines = printed.out.splitlines()
    heads = next(line for line in lines if line.startswith("vectors"))
    assert heads.split("  ")[0] == "vectors"
    assert "nDCG@10 [95%]" in heads
    rows = lines[lines.index(heads) + 1 :][:2]
    assert [row.split()[0] for row in rows] == [NAMES[4], "narrow"]
    assert f"{NAMES[4]}:" in lines, "each list is printed before its decision"
    assert any(line.startswith(f"{NAMES[4]}: Keep the vectors as they are") for line in lines)
    assert "A rank correlation needs at least 5 embeddings." in printed.out
    printed, code = decide(NAMES, "--list")
    assert code == 0
    assert printed.out.splitlines()[0] == f"{', '.join(NAMES)}:"
    assert printed.out.count("as it is") == 1


def test_incompatible_vectors_print_one_sentence(decide, capsys):
    for names, arguments, words in (
        ([NAMES[0], "few"], (), ["'few' has 150 rows", "'layers[0]' 300", "same rows"]),
        ([NAMES[0], NAMES[0]], (), ["--vectors names 'layers[0]' twice"]),
        ([NAMES[0], "layers[9]"], (), ["layers[9]"]),
        (NAMES[:2], ("--save-map", "m"), ["--save-map", "one --vectors"]),
        (NAMES[:2], ("--list", "--json"), ["--list with --json", "one --vectors"]),
    ):
        printed, code = decide(names, *arguments)
        assert (code, printed.out) == (1, "")
        assert all(word in printed.err for word in words), printed.err
    code = main(["decide", "corpus.npz", "--vectors", NAMES[0], "--vectors", NAMES[1]])
    output = capsys.readouterr()
    assert (code, output.out) == (1, "")
    assert "Several --vectors need ground truth" in output.err
