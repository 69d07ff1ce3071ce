import json
import shutil
import sys
from functools import partial

import numpy as np
import pytest
from safetensors import safe_open

from isoscope.cli.local import PACKAGES
from isotropy.catalog import Similarity
from tests.task_rows import hidden_side

N, M, D = 300, 150, 16
VARIANT = {
    "name", "method", "parameters", "dimensions", "storage", "bytes", "isoscore", "choose", "report",
    "recall_of_exact",
}  # fmt: skip
REPORT = {"value", "low", "high", "difference", "difference_low", "difference_high"}
SEARCHED = ("queries.jsonl", "--qrels", "qrels.tsv")


@pytest.fixture(scope="module")
def hidden_task():
    return hidden_side(N, D, M)


@pytest.fixture
def folder(tmp_path, monkeypatch, hidden_task):
    """A working folder with BEIR files of the task and others of the same corpus."""
    corpus, queries, relevant = hidden_task
    rows = (
        {"_id": f"d{row}", "side": "ab"[int(x[1] > 0)], "all": "a", "home": f"h{row // 3}", "embedding": x.tolist()}
        for row, x in enumerate(corpus)
    )
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    rows = ({"_id": f"q{row}", "home": f"h{row // 2}", "embedding": x.tolist()} for row, x in enumerate(queries))
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, rows)))
    lines = ["query-id\tcorpus-id\tscore", *(f"q{row}\td{document}\t1" for row, document in enumerate(relevant))]
    (tmp_path / "qrels.tsv").write_text("\n".join(lines))
    pairs = np.random.default_rng(0).permutation(N).reshape(-1, 2)
    products = (corpus[pairs[:, 0]] * corpus[pairs[:, 1]]).sum(1)
    lines = ["one,other,score", *(f"d{a},d{b},{p}" for (a, b), p in zip(pairs, products, strict=True))]
    (tmp_path / "pairs.csv").write_text("\n".join(lines))
    np.save(tmp_path / "corpus.npy", corpus)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def decide(folder, run_local):
    return partial(run_local, "decide")


@pytest.fixture
def decide_json(folder, run_json):
    return partial(run_json, "decide")


def test_query_task_json_has_all_fields(decide_json):
    decision = decide_json("corpus.jsonl", "--queries", *SEARCHED)
    assert list(decision) == [
        "task", "metric", "similarity", "n", "d", "parts", "variants", "baseline", "chosen", "smallest",
        "smallest_difference", "conclusion",
    ]  # fmt: skip
    assert (decision["task"], decision["metric"], decision["similarity"]) == ("queries", "ndcg@10", "cosine")
    assert (decision["n"], decision["d"], decision["baseline"]) == (N, D, 0)
    assert sum(decision["parts"].values()) == M
    assert all(set(variant) == VARIANT and set(variant["report"]) == REPORT for variant in decision["variants"])
    assert len(decision["variants"]) <= 40
    baseline, chosen = decision["variants"][0], decision["variants"][decision["chosen"]]
    assert (baseline["method"], baseline["dimensions"], baseline["storage"]) == ("none", "all", "float32")
    assert (baseline["bytes"], baseline["report"]["difference"]) == (4 * D, 0)
    clear = [variant for variant in decision["variants"] if variant["choose"]["difference_low"] > 0]
    assert chosen in (clear or [baseline])
    assert chosen["report"]["difference"] == pytest.approx(chosen["report"]["value"] - baseline["report"]["value"])
    assert decision["variants"][decision["smallest"]]["bytes"] <= chosen["bytes"]
    assert "To save memory, " in decision["conclusion"]
    assert decision["smallest_difference"]["low"] <= decision["smallest_difference"]["high"]


def test_beir_folder_provides_qrels_and_ids(decide, decide_json, folder):
    scifact = folder / "scifact"
    (scifact / "qrels").mkdir(parents=True)
    for name, letter in (("corpus", "d"), ("queries", "q")):
        x = [json.loads(line)["embedding"] for line in (folder / f"{name}.jsonl").read_text().splitlines()]
        np.save(folder / f"{name}.npy", np.array(x, np.float32))
        lines = (json.dumps({"_id": f"{letter}{row}", "text": "x"}) for row in range(len(x)))
        (scifact / f"{name}.jsonl").write_text("\n".join(lines))
    (scifact / "qrels" / "test.tsv").write_text((folder / "qrels.tsv").read_text())
    (scifact / "qrels" / "dev.tsv").write_text((folder / "qrels.tsv").read_text().replace("\td", "\tother"))
    shutil.make_archive(str(scifact), "zip", folder, "scifact")
    plain = decide_json("corpus.jsonl", "--queries", *SEARCHED)
    searched = ("corpus.npy", "--queries", "queries.npy", "--qrels")
    assert decide_json(*searched, "scifact") == decide_json(*searched, "scifact.zip")
    assert decide_json(*searched, "scifact")["variants"][0] == plain["variants"][0]
    printed, code = decide(*searched, "scifact", "--split", "test")
    assert code == 0
    assert "Judged by the split test of scifact. Others: dev; choose one by --split." in printed.out
    np.save(folder / "fewer.npy", np.load(folder / "corpus.npy")[1:])
    for file, words, sentence in (
        ("corpus.npy", ("scifact", "--split", "dev"), "No document id of dev.tsv, such as 'other"),
        ("corpus.npy", ("scifact", "--split", "text"), "no qrels of the split 'text'. Splits are: 'test', 'dev'"),
        ("fewer.npy", ("scifact.zip",), f"fewer.npy has no ids and {N - 1} rows, scifact/corpus.jsonl {N}"),
        ("corpus.jsonl", ("qrels.tsv", "--split", "dev"), "--split goes with --qrels of a BEIR folder"),
    ):
        queries = "queries.jsonl" if file.endswith("jsonl") else "queries.npy"
        printed, code = decide(file, "--queries", queries, "--qrels", *words)
        assert (code, sentence in printed.err) == (1, True)


def test_label_task_removes_strong_direction(decide_json):
    decision = decide_json("corpus.jsonl", "--labels", "side")
    (removed,) = (variant for variant in decision["variants"] if variant["method"] == "all_but_the_top")
    assert (decision["task"], decision["metric"]) == ("labels", "knn_accuracy")
    assert removed["report"]["difference_low"] > 0
    probed = decide_json("corpus.jsonl", "--labels", "side", "--metric", "probe_accuracy", "--groups", "home")
    assert probed["variants"][0]["report"]["value"] > decision["variants"][0]["report"]["value"]
    assert all(count % 3 == 0 for count in probed["parts"].values()), "groups of a column are never divided"
    assert sum(decision["parts"].values()) == sum(probed["parts"].values()) == N


def test_pair_task_uses_spearman(decide):
    ran = decide("corpus.jsonl", "--pairs", "pairs.csv", "--similarity", "dot", "--json")[0]
    assert "as it is" in ran.err, "the list is printed before it runs"
    decision = json.loads(ran.out)
    assert (decision["task"], decision["metric"], decision["similarity"]) == ("pairs", "spearman", "dot")
    assert decision["variants"][0]["report"]["value"] == pytest.approx(1)
    assert all(variant["storage"] != "binary_rescored" for variant in decision["variants"])
    assert {variant["recall_of_exact"] for variant in decision["variants"]} == {None}


def test_missing_ground_truth_judges_compression_only(decide, decide_json):
    decision = decide_json("corpus.npy")
    assert (decision["task"], decision["metric"]) == ("compression", "overlap@10")
    assert decision["n"] == N - N // 5
    assert decision["variants"][0]["report"]["value"] == 1
    assert {variant["method"] for variant in decision["variants"]} == {"none"}
    printed = decide("corpus.npy", "--queries", "queries.jsonl")[0].out
    assert "only compression is judged" in printed


def test_list_option_prints_variants_only(decide):
    printed, code = decide("corpus.jsonl", "--queries", *SEARCHED, "--list")
    assert code == 0
    assert "0      64 bytes  as it is" in printed.out
    assert "report" not in printed.out
    names = [line.split("bytes  ")[1] for line in printed.out.splitlines()[1:]]
    document = json.loads(decide("corpus.jsonl", "--queries", *SEARCHED, "--list", "--json")[0].out)
    assert len(document) == len(names) <= 40
    full = json.loads(decide("corpus.jsonl", "--queries", *SEARCHED, "--list", "--json", "--full")[0].out)
    assert len(full) > 100
    assert [key for key in document if key not in full] == []
    for similarity in Similarity:
        assert decide("corpus.jsonl", "--labels", "side", "--similarity", similarity, "--list")[1] == 0


def test_table_marks_claims_and_reports_unmatched_ids(decide, folder):
    lines = (folder / "qrels.tsv").read_text().splitlines()
    (folder / "qrels.tsv").write_text("\n".join([*lines[:101], "q101\tunknown\t1"]))
    printed, code = decide("corpus.jsonl", "--queries", *SEARCHED, "--groups", "home")
    assert code == 0
    assert "1 row of qrels.tsv has an id that no vector has" in printed.out
    assert "50 queries have no relevant document" in printed.out
    lines = printed.out.splitlines()
    assert sum(line.startswith("*") and "chosen" not in line for line in lines) == 1
    assert "hold for all variants at once" in printed.out
    assert lines[-1].startswith(("Keep the vectors as they are: nDCG@10 is ", "Remove ", "Whiten ", "Standardize: "))


def test_saved_map_comes_with_code_that_applies_it(decide, folder, hidden_task):
    printed, code = decide("corpus.jsonl", "--queries", *SEARCHED, "--save-map", "best.safetensors", "--variant", "8")
    assert code == 0
    lines = printed.out[printed.out.index("import numpy") :]
    names: dict = {}
    exec(lines, names)
    images = names["apply"](hidden_task[0])
    np.testing.assert_allclose(np.linalg.norm(images, axis=1), 1, rtol=1e-6)
    with safe_open(folder / "best.safetensors", "np") as stored:
        assert stored.metadata()["similarity"] == "cosine"
        assert images.shape[1] == stored.get_tensor("matrix").shape[1]
        assert stored.metadata()["dimensions"] == f"pca-{images.shape[1]}"


def test_bad_inputs_print_one_sentence(decide, folder, hidden_task, capsys):
    bad = [
        (("corpus.jsonl", "--queries", "missing.npy"), ["There is no file missing.npy"]),
        (("corpus.jsonl", "--qrels", "qrels.tsv"), ["--queries"]),
        (("corpus.jsonl", "--pairs", "pairs.csv", "--labels", "side"), ["--pairs", "--labels", "one"]),
        (("corpus.jsonl", "--queries", "queries.jsonl", "--labels", "side"), ["--queries goes with --qrels"]),
        (("corpus.jsonl", "--queries", "queries.jsonl", "--qrels", "other.tsv"), ["No query id", "'x0'", "--ids"]),
        (("corpus.npy", "--queries", *SEARCHED), ["No document id", "'d", "numbers from 0", "file holds no ids"]),
        (("corpus.npy", "--pairs", "pairs.csv"), ["No row id", "pairs.csv"]),
        (("corpus.jsonl", "--queries", "queries.jsonl", "--qrels", "zero.tsv"), ["no relevant document", "above 0"]),
        (("corpus.jsonl", "--queries", "queries.jsonl", "--qrels", "twice.tsv"), ["twice", "'q0'"]),
        (("corpus.jsonl", "--queries", "queries.jsonl", "--qrels", "words.tsv"), ["'much'", "number"]),
        (("corpus.jsonl", "--queries", "queries.jsonl", "--qrels", "half.tsv"), ["'0.5'", "whole number"]),
        (("corpus.jsonl", "--queries", "queries.jsonl", "--qrels", "few.tsv"), ["at least 25 independent groups"]),
        (("corpus.jsonl", "--queries", "narrow.npy", "--qrels", "qrels.tsv"), ["5 dimensions", "16", "same model"]),
        (("double.jsonl", "--queries", *SEARCHED), ["'d0' names 2 rows", "--ids"]),
        (("corpus.jsonl", "--labels", "all"), ["two classes", "'a'"]),
        (("corpus.jsonl", "--labels", "_id"), ["labels that several rows share", "different ones"]),
        (("corpus.jsonl", "--labels", "color"), ["nothing called 'color'"]),
        (("corpus.jsonl", "--pairs", "same.csv"), ["same.csv", "score 1", "several"]),
        (("corpus.jsonl", "--pairs", "qrels.tsv", "--groups", "home"), ["no column 'home'"]),
        (("corpus.jsonl", "--pairs", "thin.csv"), ["two columns of ids"]),
        (("nan.npy",), ["1 row of nan.npy", "NaN"]),
        (("small.npy",), ["at least 125 rows"]),
        (("corpus.jsonl", "--labels", "side", "--metric", "ndcg@10"), ["knn_accuracy"]),
        (("corpus.jsonl", "--labels", "side", "--save-map", "m", "--variant", "99"), ["no variant 99"]),
        (("corpus.jsonl", "--labels", "side", "--save-map", "none/m"), ["no folder"]),
    ]
    corpus, queries, _ = hidden_task
    lines = (folder / "qrels.tsv").read_text().splitlines()
    for name, changed in {
        "other.tsv": [lines[0], *(f"x{line[1:]}" for line in lines[1:])],
        "zero.tsv": [lines[0], *(line[:-1] + "0" for line in lines[1:])],
        "twice.tsv": [*lines, lines[1]],
        "words.tsv": [lines[0], lines[1][:-1] + "much"],
        "half.tsv": [lines[0], lines[1][:-1] + "0.5"],
        "few.tsv": lines[:20],
        "same.csv": ["one,other,score", *(f"d{row},d{row + 1},1" for row in range(100))],
        "thin.csv": ["one,score", "d0,1"],
        "double.jsonl": [*(rows := (folder / "corpus.jsonl").read_text().splitlines()), rows[0]],
    }.items():
        (folder / name).write_text("\n".join(changed))
    np.save("narrow.npy", queries[:, :5])
    np.save("nan.npy", np.where(np.arange(N)[:, None] == 7, np.nan, corpus))
    np.save("small.npy", corpus[:40])
    for arguments, words in bad:
        printed, code = decide(*arguments)
        assert (code, printed.out) == (1, "")
        assert all(word in printed.err for word in words), printed.err
        assert len(printed.err.splitlines()) == 1
    for option, value in (("--seed", "-1"), ("--tolerance", "2"), ("--tolerance", "x"), ("--variant", "best")):
        with pytest.raises(SystemExit):
            decide("corpus.npy", option, value)
        assert f"argument {option}: expected" in capsys.readouterr().err


def test_missing_package_is_named_before_reading_files(decide, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    printed, code = decide("missing.npy")
    assert code == 1
    assert "faiss-cpu" in printed.err
    assert "isoscope[files,torch,decide]" in printed.err
    assert set(PACKAGES) == {"torch", "faiss", "pytrec_eval", "sklearn"}
