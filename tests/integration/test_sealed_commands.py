"""Test splits by command line and client: uploads, what can be chosen, the opening, and sealed predictions."""

import json
import re

import pytest

from isoscope.client import RefusedError
from tests.sealed import add_predictions, add_sealed, run_ids

ROWS = "sentence\tlabel\tpart\n" + "".join(
    f"a film number {i}\t{i % 2}\t{'held out' if i > 35 else 'dev' if i > 29 else 'train'}\n" for i in range(40)
)


def test_rows_are_uploaded_with_a_test_split_in_each_way(typed, tmp_path, isoscope):
    rows = tmp_path / "rows.tsv"
    rows.write_text(ROWS)
    code, out, err = typed("upload-dataset", rows, rows, "--test", rows, "--name", "Three files")
    assert (code, out.splitlines()[1]) == (0, "rows: 40 train, 40 validation, 40 test"), err
    values = ("--validation-values", "dev", "--test-values", "held out")
    out = typed("upload-dataset", rows, "--split-column", "part", *values)[1]
    assert out.splitlines()[1] == "rows: 30 train, 6 validation, 4 test"
    other = tmp_path / "other.tsv"
    other.write_text(ROWS.replace("film", "plot"))
    out = typed("upload-dataset", rows, other, "--test-fraction", "0.1", "--seed", "2", "--json")[1]
    assert json.loads(out)["division"] == {"kind": "fraction", "fraction": 0.1, "validation_fraction": None, "seed": 2}
    out = typed("upload-dataset", rows, "--validation-fraction", "0.2", "--test-fraction", "0.1")[1]
    assert out.splitlines()[1] == "rows: 28 train, 8 validation, 4 test"
    found = isoscope.upload_dataset(rows, split_column="part", split_values={"validation": ["dev", "held out"]})
    assert (found["n_validation"], found["n_test"]) == (10, None)
    code, _, err = typed("upload-dataset", rows)
    assert (code, "No validation file" in err) == (1, True)


def test_a_choice_is_frozen_by_command(typed, context, isoscope):
    experiment_id = add_sealed(context, name="Sealed", scores=[0.80, 0.82, 0.81, 0.85, 0.86, 0.87])
    # Not after a digit: a time of day may end so.
    assert re.search(r"(?<!\d)0\.8[257]", typed("runs", "--json")[1]) is None
    add_predictions(context, experiment_id)
    run = run_ids(context, experiment_id)[0]
    code, out, err = typed("open-test", "Sealed")
    assert (code, out) == (0, "λ = 0\nλ = 1\n")
    assert "sealed" in err
    assert isoscope.test_scores(experiment_id)["state"] == "sealed", "listing opens nothing"
    with pytest.raises(RefusedError, match="sealed"):
        list(isoscope.predictions(run, split="test"))
    assert typed("predictions", run, "--split", "test", "-o", "none.csv")[0] == 1

    code, out, _ = typed("open-test", "Sealed", "--choose", "lambda = 1", "--by", "Ada", "--note", "best")
    first, heads, *lines = out.splitlines()
    assert code == 0
    assert first.startswith("λ = 1: accuracy 0.86 ± 0.02484 on 500 test rows, chosen by Ada at ")
    assert first.endswith("(none opened before)")
    assert heads.split()[:3] == ["Setting", "Choice", "Seeds"]
    assert [("not chosen" in line, "0.81" in line) for line in lines] == [(True, True), (False, False)]
    assert len(list(isoscope.predictions(run, split="test"))) == 4
    changed = isoscope.open_test(experiment_id, "lambda = 0", note="second thoughts")
    assert [one["number"] for one in changed["openings"]] == [1, 2]
    assert "changed afterward: λ = 0, by local user" in typed("open-test", "Sealed")[1]
