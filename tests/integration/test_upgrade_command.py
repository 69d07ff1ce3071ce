from functools import partial

import numpy as np
import pytest
from safetensors.numpy import load_file

from isotropy.catalog import Similarity
from isotropy.tasks.search import prepare

N, M, D, E = 300, 150, 16, 12
TRUTH = ("--queries", "old_queries.npz", "new_queries.npz", "--qrels", "qrels.tsv")
FIELDS = [
    "verdict", "conclusion", "metric", "similarity", "n", "sampled", "texts", "fit_texts", "choose_units",
    "report_units", "bridge", "retain", "kept_old", "kept_new", "scores", "kept_score",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with vectors of texts by a noisy old model and by a new one without the noise."""
    random = np.random.default_rng(7)
    monkeypatch.chdir(tmp_path)
    texts, relevant = random.normal(size=(N, D)).astype(np.float32), random.integers(0, N, M)
    query_vectors = texts[relevant] + random.normal(size=(M, D)).astype(np.float32)
    model = np.linalg.qr(random.normal(size=(D, D)))[0].astype(np.float32)
    old = texts + random.normal(size=(N, D)).astype(np.float32)
    ids, query_ids = (np.array([f"{letter}{row}" for row in range(n)]) for letter, n in (("d", N), ("q", M)))
    sides = np.where(texts[:, 0] > 0, "a", "b")
    np.savez("old.npz", x=old, id=ids, side=sides)
    np.savez("new.npz", x=texts @ model, id=ids, side=sides)
    np.savez("rotated.npz", x=old @ model, id=ids)
    np.savez("old_queries.npz", x=query_vectors, id=query_ids)
    np.savez("new_queries.npz", x=query_vectors @ model, id=query_ids)
    lines = ["query-id\tcorpus-id\tscore", *(f"q{row}\td{document}\t1" for row, document in enumerate(relevant))]
    (tmp_path / "qrels.tsv").write_text("\n".join(lines))
    pairs = random.permutation(N).reshape(-1, 2)
    products = (texts[pairs[:, 0]] * texts[pairs[:, 1]]).sum(1)
    lines = ["one,other,score", *(f"d{a},d{b},{p}" for (a, b), p in zip(pairs, products, strict=True))]
    (tmp_path / "pairs.csv").write_text("\n".join(lines))
    return tmp_path


@pytest.fixture
def upgrade(folder, run_local):
    return partial(run_local, "upgrade")


@pytest.fixture
def upgrade_json(folder, run_json):
    return partial(run_json, "upgrade")


def test_better_model_with_qrels_is_reembedded(upgrade, upgrade_json):
    document = upgrade_json("old.npz", "new.npz", *TRUTH)
    assert list(document) == FIELDS
    assert (document["verdict"], document["metric"], document["texts"]) == ("re-embed", "ndcg@10", N)
    scores = document["scores"]
    assert (
        0
        < scores["new"]["difference_low"]
        < scores["new"]["difference"]
        == pytest.approx(scores["new"]["value"] - scores["old"]["value"])
    )
    assert document["kept_score"]["value"] == pytest.approx(scores["bridged"]["value"] / scores["new"]["value"])
    assert document["choose_units"] + document["report_units"] == pytest.approx(0.8 * M, abs=2)
    lenient = upgrade_json("old.npz", "new.npz", *TRUTH, "--retain", "0.1")
    assert lenient["verdict"] in {"bridge", "re-embed"}
    printed, code = upgrade("old.npz", "new.npz", *TRUTH)
    assert (code, printed.out.splitlines()[-1]) == (0, document["conclusion"])
    assert "bridged" in printed.out


def test_rotated_model_is_bridged_without_truth_and_stays_with_it(upgrade_json):
    document = upgrade_json("old.npz", "rotated.npz")
    assert (document["verdict"], document["scores"], document["n"]) == ("re-embed", None, N - N // 5)
    assert document["kept_old"]["value"] == document["kept_new"]["value"] == 1
    assert "More queries may show that a bridge keeps 95%." in document["conclusion"], "24 queries cannot show it"
    assert upgrade_json("old.npz", "rotated.npz", "--retain", "0.8")["verdict"] == "bridge"
    for truth in (("--labels", "side"), ("--pairs", "pairs.csv")):
        document = upgrade_json("old.npz", "rotated.npz", *truth)
        assert (document["verdict"], document["kept_old"], document["kept_score"]["value"]) == ("stay", None, 1)
        assert upgrade_json("old.npz", "new.npz", *truth)["scores"]["new"]["difference"] > 0


def test_rows_are_matched_by_id_and_outside_rows_counted(upgrade, upgrade_json):
    with np.load("new.npz") as stored:
        x, ids = stored["x"], stored["id"]
    order = np.random.default_rng(0).permutation(N)
    np.savez("shuffled.npz", x=x[order], id=ids[order])
    assert upgrade_json("old.npz", "shuffled.npz", *TRUTH) == upgrade_json("old.npz", "new.npz", *TRUTH)
    np.savez("sample.npz", x=x[order[:200]], id=[*ids[order[:199]], "unknown"])
    document = upgrade_json("old.npz", "sample.npz", *TRUTH[:3])
    assert (document["n"], document["sampled"], document["texts"]) == (N, 199, 101)
    printed, _ = upgrade("old.npz", "sample.npz", *TRUTH)
    assert "199 texts are in 300 rows of old.npz and 200 of sample.npz." in printed.out


@pytest.mark.parametrize("similarity", Similarity)
def test_saved_bridge_comes_with_code_that_applies_it(upgrade, similarity):
    printed, code = upgrade("old.npz", "rotated.npz", "--save-bridge", "b.safetensors", "--similarity", similarity)
    assert code == 0
    names: dict = {}
    exec(printed.out[printed.out.index("import numpy") :], names)
    with np.load("old.npz") as old, np.load("rotated.npz") as rotated:
        expected = prepare(old["x"], similarity)
        np.testing.assert_allclose(names["apply"](rotated["x"]), expected, rtol=1e-4, atol=1e-4)
    assert load_file("b.safetensors")["matrix"].shape == (D, D)


def test_vectors_of_two_layers_are_read_from_one_file(upgrade_json):
    with np.load("old.npz") as old, np.load("new.npz") as new:
        np.savez("layers.npz", first=old["x"], second=new["x"])
    document = upgrade_json("layers.npz", "layers.npz", "--vectors", "first", "--vectors", "second")
    assert document["kept_old"] == upgrade_json("old.npz", "new.npz")["kept_old"]


def test_bad_inputs_print_one_sentence(upgrade, folder):
    bad = [
        (("old.npz", "missing.npy"), ["There is no file missing.npy"]),
        (("old.npy", "fewer.npy"), ["old.npy has 300 rows, fewer.npy 299", "--ids"]),
        (("old.npz", "others.npz"), ["No id of others.npz, such as 'x0', is one of old.npz, such as 'd0'"]),
        (("old.npz", "double.npz"), ["'d0' names 2 rows of double.npz", "--ids"]),
        (("old.npy", "constant.npy"), ["All vectors of constant.npy are equal"]),
        (("constant.npy", "old.npy"), ["All vectors of constant.npy are equal"]),
        (("small.npy", "small.npy"), ["at least 125 rows"]),
        (("old.npz", "new.npz", "--qrels", "qrels.tsv"), ["--qrels needs the vectors of the queries"]),
        (("old.npz", "new.npz", "--save-bridge", "none/b"), ["no folder"]),
        (("old.npz", "new.npz", *("--vectors", "x") * 3), ["at most twice"]),
        (("old.npz", "new.npz", "--metric", "ndcg@10"), ["overlap@10"]),
    ]
    with np.load("old.npz") as stored:
        x, ids = stored["x"], stored["id"]
    np.save("old.npy", x)
    np.save("fewer.npy", x[1:])
    np.save("small.npy", x[:40])
    np.save("constant.npy", np.ones((N, D), np.float32))
    np.savez("others.npz", x=x, id=[f"x{row}" for row in range(N)])
    np.savez("double.npz", x=x, id=[*ids[:-1], "d0"])
    for arguments, words in bad:
        printed, code = upgrade(*arguments)
        assert (code, printed.out) == (1, ""), arguments
        assert all(word in printed.err for word in words), printed.err
        assert len(printed.err.splitlines()) == 1


@pytest.mark.parametrize("similarity", Similarity)
def test_one_dimension_and_fewer_rows_than_dimensions_are_judged(upgrade_json, similarity):
    random = np.random.default_rng(1)
    np.save("line.npy", random.normal(size=(400, 1)).astype(np.float32))
    np.save("wide.npy", random.normal(size=(400, 600)).astype(np.float32))
    for old, new in (("line", "wide"), ("wide", "line")):
        document = upgrade_json(f"{old}.npy", f"{new}.npy", "--similarity", similarity)
        assert document["verdict"] == "re-embed"
        assert 0 <= document["kept_old"]["low"] <= document["kept_old"]["high"] <= 1
