import json
from pathlib import Path

import numpy as np
import pytest

from isoscope.cli import main
from tests.planted import generated

FIELDS = {
    "slug", "severity", "title", "evidence", "rows", "row_count", "names", "dimensions", "dimension_count",
    "dimension_names", "effect", "advice",
}  # fmt: skip


@pytest.fixture
def files(tmp_path):
    x = generated(np.random.default_rng(0), 1200, 32)
    wrong = x[:600].copy()
    wrong[[4, 9]] *= 60
    clouds = {"first": x[:600], "second": x[600:], "wrong": wrong, "moved": x[600:] + x.std(), "narrow": x[:600, :8]}
    for name, cloud in clouds.items():
        np.save(tmp_path / f"{name}.npy", cloud)
    return tmp_path


def check(folder, name, *options):
    return main(["check", str(folder / f"{name}.npy"), *map(str, options)])


def test_only_drifted_file_has_findings(files, capsys):
    assert check(files, "first", "--fail-on", "note") == 0
    assert "Nothing found." in capsys.readouterr().out
    assert check(files, "first", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"decision": None, "findings": []}
    assert check(files, "second", "--baseline", files / "first.npy", "--fail-on", "note") == 0
    assert check(files, "moved", "--baseline", files / "first.npy", "--fail-on", "warning", "--json") == 1
    findings = json.loads(capsys.readouterr().out.splitlines()[-1])["findings"]
    (drift,) = (finding for finding in findings if finding["slug"] == "drift")
    assert drift["effect"]["measure"] == "energy_distance"
    assert drift["effect"]["before"] == 0
    assert 0.05 < drift["effect"]["after"] < 1


def test_fail_on_sets_exit_code_and_table_lists_advice(files, capsys):
    for level, code in (("note", 1), ("warning", 1), ("error", 0)):
        assert check(files, "wrong", "--fail-on", level, "--json") == code
        (finding,) = json.loads(capsys.readouterr().out)["findings"]
        assert set(finding) == FIELDS
        assert {"measure", "before", "after"} <= set(finding["effect"])
        assert (finding["slug"], finding["severity"], finding["rows"]) == ("outlier_rows", "warning", [4, 9])
    assert check(files, "wrong") == 0
    out = capsys.readouterr().out
    for words in ("warning: 2 rows hold ", ": rows 4, 9.", " before fixing, ", "Look at each listed row."):
        assert words in out


def test_baseline_rows_match_by_order_or_name(files, tmp_path, capsys):
    assert check(files, "first", "--baseline", files / "wrong.npy", "--same-rows", "--fail-on", "note") == 0
    x = np.load(files / "first.npy")
    for name, order in (("old", np.arange(600)), ("new", np.random.default_rng(1).permutation(600))):
        lines = [",".join([f"word {row}", *map(str, x[row])]) for row in order]
        head = ",".join(["word", *(f"e{i}" for i in range(32))])
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *lines]), encoding="utf-8")
    assert main(["check", str(tmp_path / "new.csv"), "--baseline", str(tmp_path / "old.csv"), "--fail-on", "note"]) == 0
    capsys.readouterr()
    assert check(files, "second", "--baseline", files / "first.npy", "--same-rows", "--json") == 0
    (drift,) = json.loads(capsys.readouterr().out)["findings"]
    assert (drift["slug"], drift["effect"]["measure"]) == ("drift", "top10_kept")


def test_unreadable_input_exits_with_2_and_advice(files, monkeypatch, capsys):
    for name, options, words in (
        ("missing", (), ("missing.npy", "name a file")),
        ("first", ("--baseline", files / "narrow.npy"), ("8 dimensions", "--same-rows")),
        ("first", ("--vectors", "x"), ("x", "vectors")),
    ):
        assert check(files, name, *options) == 2
        error = capsys.readouterr().err
        assert [word for word in words if word not in error] == []
    opened = Path.open

    def deny_first(path, *arguments, **options):
        if path.name == "first.npy":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", deny_first)
    assert check(files, "first") == 2
    assert "first.npy cannot be read: Permission denied. Check its permissions." in capsys.readouterr().err
