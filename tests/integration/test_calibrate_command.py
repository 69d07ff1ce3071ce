import json
from functools import partial

import numpy as np
import pytest

N, D = 600, 16


@pytest.fixture
def calibrate(tmp_path, monkeypatch, run_local):
    """Run in a folder with documents and a query for each, hidden by a wide dimension, and ground truth."""
    random = np.random.default_rng(0)
    corpus = random.normal(size=(N, D))
    vectors = np.concatenate([corpus, corpus + random.normal(size=(N, D))])
    vectors[:, 0] *= 8
    rows = [{"_id": f"d{row}", "side": "ab"[int(x[1] > 0)], "embedding": x.tolist()} for row, x in enumerate(vectors)]
    (tmp_path / "texts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, rows[N:])))
    lines = ["query-id\tcorpus-id\tscore", *(f"d{N + row}\td{row}\t1" for row in range(N))]
    (tmp_path / "qrels.tsv").write_text("\n".join(lines))
    lines = [f"d{N + row},d{row if row % 2 else (row + N // 2) % N},{4 * (row % 2)}" for row in range(N)]
    (tmp_path / "pairs.csv").write_text("\n".join(["one,two,score", *lines, f"d{N},d0,1"]))
    monkeypatch.chdir(tmp_path)
    return partial(run_local, "calibrate")


def test_pairs_get_cutoff_and_remedy(calibrate):
    scored = ("texts.jsonl", "--pairs", "pairs.csv", "--match", "4")
    printed, code = calibrate(*scored, "--json")
    assert code == 0, printed.err
    document = json.loads(printed.out)
    assert list(document) == [
        "task", "similarity", "pairs", "false_match_rate", "variants", "chosen", "spaces", "comparison", "random",
        "conclusion",
    ]  # fmt: skip
    assert (document["task"], document["similarity"], document["pairs"]["match"]) == ("pairs", "cosine", 4)
    assert document["pairs"]["labeled_matches"] == N // 2
    assert document["chosen"] > 0
    cutoff = next(cutoff for cutoff in document["spaces"][1]["cutoffs"] if cutoff["promise"] == 0.1)
    assert (cutoff["kind"], cutoff["labels_needed"] > 29) == ("miss", True)
    printed, code = calibrate(*scored, "--miss-rate", "0.1", "--save-map", "map.safetensors")
    assert code == 0, printed.err
    assert printed.out.endswith(f"{document['comparison']} {cutoff['sentence']} {document['random']}\n")
    assert cutoff["code"] in printed.out
    names = {}
    exec(cutoff["code"], names)
    assert names["apply"](np.ones((3, D), np.float32)).shape[0] == 3


@pytest.mark.parametrize(
    ("arguments", "matches"),
    [
        (("texts.jsonl", "--labels", "side"), "rows with a random row of their label"),
        (("texts.jsonl", "--queries", "queries.jsonl", "--qrels", "qrels.tsv"), "queries with a relevant document"),
    ],
)
def test_labels_and_queries_are_paired(calibrate, arguments, matches):
    printed, code = calibrate(*arguments, "--false-match-rate", "0.05")
    assert code == 0, printed.err
    assert f"match: {matches}." in printed.out
    assert "at most 5% of non-matches are taken, with 95% confidence." in printed.out


def test_unusable_input_is_refused(calibrate):
    for arguments, words in (
        (("texts.jsonl",), "A cutoff needs ground truth. Give --pairs"),
        (("texts.jsonl", "--pairs", "pairs.csv"), "Scores run from 0 to 4. Set the minimum score of a match. Use"),
        (("texts.jsonl", "--pairs", "pairs.csv", "--match", "5"), "No pair matches"),
        (("texts.jsonl", "--labels", "side", "--match", "1"), "Give it with --pairs only"),
        (("texts.jsonl", "--labels", "side", "--save-map", "no/map"), "There is no folder"),
    ):
        printed, code = calibrate(*arguments)
        assert (code, words in printed.err) == (1, True), printed.err
    for option in (("--miss-rate", "0.2"), ("--metric", "knn_accuracy")):
        with pytest.raises(SystemExit) as stopped:
            calibrate("texts.jsonl", "--labels", "side", *option)
        assert stopped.value.code == 2
