import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from IsoScore import IsoScore
from scipy.spatial.distance import cdist
from scipy.stats import skew
from sklearn.metrics import silhouette_score

from isotropy.catalog import GROUPS, MEASURES


@pytest.fixture
def x():
    """Two blobs of 150 points each in 6 dimensions."""
    x = np.random.default_rng(0).normal(size=(300, 6)) * np.arange(1, 7)
    x[150:, 0] += 20
    return x


@pytest.fixture
def score(run_local):
    return partial(run_local, "score")


@pytest.fixture
def score_json(run_json):
    return partial(run_json, "score")


@pytest.fixture
def npy(tmp_path, x):
    np.save(tmp_path / "x.npy", x)
    return tmp_path / "x.npy"


def test_json_has_every_measure_with_details_and_reasons(score_json, npy, x):
    report = score_json(npy)
    assert list(report) == ["n", "d", "n_left_out", "independent", *MEASURES, "findings"]
    assert "common_mean" in [finding["slug"] for finding in report.pop("findings")]
    assert all(entry.keys() >= {"value", "se", "status", "reason"} for entry in report.values())
    assert (report["n"]["value"], report["d"]["value"]) == (300, 6)
    assert report["isoscore"]["value"] == pytest.approx(float(IsoScore.IsoScore(x)), rel=1e-7)
    assert (report["isoscore"]["se"], report["participation_ratio"]["se"]) == (None, None)
    assert report["isoscore_unbiased"]["se"] > 0
    assert (report["independent"]["value"], report["independent"]["detail"]) == (300, {"by": "rows"})
    assert len(report["anisotropy_centred"]["value"]) == len(report["explained_variance"]["value"]) == 6
    assert len(report["spectrum"]["detail"]["eigenvalues"]) == 6
    assert report["isoscore_star"]["detail"] == {"zeta": 0.2, "source": "identity"}
    silhouette = report["silhouette"]
    assert (silhouette["value"], silhouette["status"], silhouette["detail"]) == (None, "undefined", None)
    assert "label" in silhouette["reason"]


def test_hubs_are_named_and_similarity_is_reported(score_json, tmp_path, npy, x, score):
    lines = [f"word {row},{','.join(map(str, values))}" for row, values in enumerate(x)]
    (tmp_path / "named.csv").write_text("word,a,b,c,d,e,f\n" + "\n".join(lines))
    hubs = score_json(tmp_path / "named.csv", "--measures", "hubness")["hubness"]["detail"]["hubs"]
    assert [hub["name"] for hub in hubs] == [f"word {hub['row']}" for hub in hubs]
    unnamed = score_json(npy, "--measures", "hubness")["hubness"]["detail"]["hubs"]
    assert {hub["name"] for hub in unnamed} == {None}
    chosen = (npy, "--similarity", "euclidean", "--measures", "hubness,levina_bickel")
    scores = score_json(*chosen)
    far = cdist(x, x)
    np.fill_diagonal(far, np.inf)
    counts = np.bincount(far.argsort(axis=1)[:, :10].ravel(), minlength=len(x))
    assert scores["hubness"]["value"] == pytest.approx(skew(counts))
    assert scores["hubness"]["detail"]["similarity"] == "euclidean"
    assert "neighbors and hubness by Euclidean distance" in score(*chosen)[0].out


def test_duplicates_and_groups_count_once(score_json, score, tmp_path, x):
    lines = [f"{row // 10},{','.join(map(str, values))}" for row, values in enumerate(np.repeat(x[:30], 10, axis=0))]
    path = tmp_path / "copies.csv"
    path.write_text("document,a,b,c,d,e,f\n" + "\n".join(lines))
    columns = ("--vectors", "a,b,c,d,e,f", "--measures", "isoscore_unbiased")
    copies, grouped = score_json(path, *columns), score_json(path, *columns, "--groups", "document")
    assert copies["independent"]["detail"] == {"by": "duplicates"}
    assert grouped["independent"]["detail"] == {"by": "groups"}
    assert copies["independent"]["value"] == grouped["independent"]["value"] == 30
    assert copies["isoscore_unbiased"] == grouped["isoscore_unbiased"]
    assert "30 groups" in score(path, *columns, "--groups", "document")[0].out
    printed, code = score(path, *columns, "--groups", "typo")
    assert (code, "nothing called 'typo' for the groups" in printed.err) == (1, True)


def test_labels_come_from_column_or_second_file(score_json, tmp_path, x):
    lines = ["a,b,c,d,e,f,side", *(f"{','.join(map(repr, map(float, row)))},{i // 150}" for i, row in enumerate(x))]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    scores = score_json(tmp_path / "x.csv", "--labels", "side", "--measures", "silhouette, isoscore_by_label")
    assert set(scores) == {"n", "d", "n_left_out", "independent", "findings", "silhouette", "isoscore_by_label"}
    assert scores["silhouette"]["value"] == pytest.approx(silhouette_score(x, np.arange(300) // 150), rel=1e-7)
    np.save(tmp_path / "part-1.npy", x[:100])
    np.save(tmp_path / "part-2.npy", x[100:])
    (tmp_path / "sides.txt").write_text("\n".join(["left"] * 150 + ["right"] * 150))
    files = tmp_path / "part-1.npy", tmp_path / "part-2.npy"
    scores = score_json(*files, "--annotations", tmp_path / "sides.txt", "--labels", "line", "--measures", "silhouette")
    assert scores["silhouette"]["value"] == pytest.approx(silhouette_score(x, np.arange(300) // 150), rel=1e-7)


def test_transpose_swaps_axes_and_nonfinite_rows_are_counted(score_json, npy, x, score, tmp_path):
    scores = score_json(npy, "--transpose", "--measures", "isoscore")
    assert (scores["n"]["value"], scores["d"]["value"]) == (6, 300)
    assert scores["isoscore"]["value"] == pytest.approx(float(IsoScore.IsoScore(x.T)), abs=1e-7)
    x[3, 2] = np.nan
    np.save(tmp_path / "x.npy", x)
    scores = score_json(tmp_path / "x.npy", "--measures", "isoscore")
    assert (scores["n"]["value"], scores["n_left_out"]["value"]) == (299, 1)
    assert "rows left out for NaN or infinity: 1\n" in score(tmp_path / "x.npy")[0].out


def test_table_has_catalog_names_and_sample_sizes(score, npy, tmp_path):
    printed, code = score(npy)
    assert code == 0
    mean = "warning: The mean holds 81% of the energy (150 of 300 rows), 34% with all.\n"
    assert printed.out.startswith(f"points n = 300, dimensions d = 6\n{mean}")
    assert "\nlabels: none\n" in printed.out
    assert all(heading in printed.out for heading in GROUPS.values())
    assert all(measure.name.replace("*", "★") in printed.out for measure in MEASURES.values())
    for words in ("Spectrum (greatest eigenvalue)", "undefined: ", " (SE "):
        assert words in printed.out
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(2500, 3)))
    assert "(n = 2,000)" in score(tmp_path / "x.npy", "--measures", "barcode")[0].out


def test_unreadable_file_is_reported(score, npy, monkeypatch):
    cases = [
        (("missing.npy",), "There is no file missing.npy: name a file that holds vectors."),
        ((".",), ". is a folder: name a file that holds vectors."),
        (("nan.npy",), "None of the 5 rows is finite, so nothing can be measured."),
        (("x.npy", "--labels", "side"), "The file has nothing called 'side' for the labels"),
        (("x.npy", "--vectors", "y"), "The file has no array 'y' that could hold the vectors"),
        (("text.npy",), "The file is named .npy, but its first bytes are not those of a npy file"),
    ]  # fmt: skip
    for arguments, expected in cases:
        monkeypatch.chdir(npy.parent)
        (npy.parent / "text.npy").write_text("hello")
        np.save("nan.npy", np.full((5, 2), np.nan))
        printed, code = score(*arguments)
        assert code == 1
        assert printed.err.startswith(expected)
        assert printed.out == ""


def test_labels_are_suggested_and_seed_changes_sample(score, tmp_path, score_json, x):
    (tmp_path / "x.csv").write_text("a,b,c,side\n.1,2.,.5,1\n3.5,4.,.5,2\n5.,6.5,.5,1\n")
    printed = score(tmp_path / "x.csv")[0].out
    assert "dimensions d = 4\nside is taken as a coordinate; if it is a label: --labels side\n" in printed
    assert "labels: none; for silhouettes choose a column by --labels: 'side'\n" in printed
    labeled = score(tmp_path / "x.csv", "--labels", "side")[0].out
    assert labeled.startswith("points n = 3, dimensions d = 3\n")
    assert "\nlabels: side\n" in labeled
    rows = np.random.default_rng(0).normal(size=(2500, 3))
    lines = ["a,b,c", *(",".join(map(repr, map(float, row))) for row in rows)]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    arguments = tmp_path / "x.csv", "--vectors", "a, c", "--measures", "barcode,"
    scores = score_json(*arguments)
    assert scores["d"]["value"] == 2
    assert scores["barcode"]["value"] == score_json(*arguments, "--seed", "0")["barcode"]["value"]
    assert scores["barcode"]["value"] != score_json(*arguments, "--seed", "1")["barcode"]["value"]


def test_closed_pipe_prints_no_traceback():
    script = "from isoscope.cli.printing import write; write(map(str, range(10**6)))"
    command = f"{sys.executable} -c '{script}' | head -c 1"
    process = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (process.stdout, process.stderr) == ("0", "")


def test_negative_seed_and_unknown_measure_are_refused(score, npy, capsys):
    with pytest.raises(SystemExit):
        score(npy, "--seed", "-1")
    assert "expected a whole number from 0, got '-1'" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        score(npy, "--measures", "isoscore,typo")
    assert ended.value.code == 2
    assert "there is no measure 'typo': choose among isoscore_unbiased, " in capsys.readouterr().err


def test_missing_package_is_named_and_interrupt_is_quiet(score, npy, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("isoscope.check.read_cloud", interrupt)
    printed, code = score(npy)
    assert (printed.out, code) == ("", 130)
    monkeypatch.delitem(sys.modules, "isoscope.score", raising=False)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    printed, code = score(npy)
    assert code == 1
    assert printed.err == "Measuring needs tqdm, which is not installed: pip install 'isoscope[files,torch]'\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk to write to")
def test_unwritable_output_is_reported(npy):
    command = [sys.executable, "-m", "isoscope", "score", str(npy), "--measures", "isoscore"]
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert process.returncode == 1
    assert process.stderr.startswith("The output could not be written: No space left on device.\n")
