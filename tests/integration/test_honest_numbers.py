"""Where a measure has no value: null and a sentence in the rows, the API, the pages, the plots and their files."""

import io
import json

import numpy as np
import pytest
from sqlalchemy import select

from app.db.models import Embedding, MeasurementStatus, Run, RunStatus
from app.db.types import utcnow
from isotropy.catalog import MEASURES
from isotropy.score import OUT_OF_RANGE
from tests.tabs import every_tab

REASON = "The covariance is zero: all points are equal."
ROWS = "sentence\tlabel\n" + "".join(f"text {i}\t{i % 2}\n" for i in range(8))


def strict(text):
    """JSON as browsers and PostgreSQL read it: NaN and infinity are errors."""

    def refuse(constant):
        raise AssertionError(f"{constant} in JSON")

    return json.loads(text, parse_constant=refuse)


def uploaded(client, work, matrix):
    buffer = io.BytesIO()
    np.save(buffer, matrix)
    created = client.post("/api/embeddings?commit=auto", files={"file": ("x.npy", buffer.getvalue())})
    work()
    return created.json()["id"]


EQUAL_ROWS = np.ones((40, 3), dtype=np.float32)
HOLES = np.where(np.eye(40, 6, -5, dtype=bool), np.nan, np.random.default_rng(0).standard_normal((40, 6)))
HOLES[20] = np.inf


@pytest.mark.parametrize(
    ("matrix", "undefined"),
    [
        (EQUAL_ROWS, {"isoscore", "isoscore_star", "participation_ratio", "anisotropy_centred", "spectrum"}),
        (np.zeros((40, 3)), {"isoscore", "mean_cosine", "mean_share", "anisotropy_raw", "anisotropy_centred"}),
        (np.full((40, 3), 1e200), {"isoscore", "partition"}),
        (np.full((40, 3), np.nan), {"isoscore", "mean_cosine"}),
        (np.ones((1, 3)), {"isoscore", "mean_cosine"}),
        (np.ones((40, 1)), {"isoscore"}),
    ],
    ids=["equal rows", "zeros", "squares beyond float64", "nothing but NaN", "one row", "one column"],
)
def test_an_undefined_measure_is_null_with_a_reason_from_the_row_to_the_files(client, context, work, matrix, undefined):
    embedding_id = uploaded(client, work, matrix)
    with context.sessions() as session:
        rows = {row.measure: row for row in session.get_one(Embedding, embedding_id).measurements}
    assert undefined <= {slug for slug, row in rows.items() if row.status is MeasurementStatus.UNDEFINED}
    assert all((row.value is None) == bool(row.reason) for row in rows.values())

    answer = client.get(f"/api/embeddings/{embedding_id}")
    by_measure = {item["measure"]: item for item in strict(answer.text)["measurements"]}
    assert all(
        (by_measure[slug]["value"], by_measure[slug]["reason"]) == (None, rows[slug].reason) for slug in undefined
    )

    page = every_tab(client, f"/embeddings/{embedding_id}").text
    assert all(rows[slug].reason in page for slug in undefined - {"isoscore_star", "spectrum"})
    for slug in ("zeta", "activation", "spectrum", "anisotropy", "cosines"):
        strict(client.get(f"/embeddings/{embedding_id}/figures/{slug}.json").text)
        assert "nan" not in client.get(f"/embeddings/{embedding_id}/figures/{slug}.csv").text.lower()
    for line in strict(client.get(f"/api/embeddings/{embedding_id}/curves/zeta").text)["lines"]:
        assert all(value is None for value in line["values"])
        assert line["reason"]


@pytest.mark.parametrize("power", [-660, 660])
def test_points_of_extreme_size_score_as_any_others(client, work, power):
    x = np.random.default_rng(0).normal(size=(40, 3))
    ids = [uploaded(client, work, row) for row in (x, np.ldexp(x, power))]
    plain, extreme = (
        {row["measure"]: row for row in strict(client.get(f"/api/embeddings/{row}").text)["measurements"]}
        for row in ids
    )
    exceptions = {"spectrum", "barcode", "partition", "partition_log"}
    for slug in plain.keys() - exceptions:
        assert (slug, extreme[slug]["value"], extreme[slug]["se"]) == (slug, plain[slug]["value"], plain[slug]["se"])
    assert extreme["spectrum"]["reason"] == OUT_OF_RANGE
    assert OUT_OF_RANGE in client.get(f"/embeddings/{ids[1]}").text
    curves = [strict(client.get(f"/api/embeddings/{row}/curves/zeta").text)["lines"] for row in ids]
    assert curves[0] == curves[1]


def test_rows_with_nan_or_infinity_are_left_out_counted_and_shown(client, work):
    embedding_id = uploaded(client, work, HOLES)
    result = strict(client.get(f"/api/embeddings/{embedding_id}").text)
    left_out = int((~np.isfinite(HOLES)).any(axis=1).sum())
    assert result["n_left_out"] == left_out == 7
    unlabelled = {slug for slug, measure in MEASURES.items() if measure.group != "labels"}
    measured = [row for row in result["measurements"] if row["measure"] in unlabelled]
    assert {row["n"] for row in measured} == {40 - left_out}
    assert all(row["status"] == "ok" for row in measured)
    assert 'id="finding-not_finite"' in client.get(f"/embeddings/{embedding_id}").text
    assert f"empty cell: {left_out} of 40 rows." in client.get(f"/embeddings/{embedding_id}?tab=source").text


@pytest.fixture
def experiment(client, context):
    """Three finished runs, one of which collapsed: all of its points are equal."""
    files = {"train": ("train.tsv", ROWS), "validation": ("validation.tsv", ROWS)}
    body = {
        "model": "all-MiniLM-L6-v2",
        "dataset_id": client.post("/api/datasets", files=files).json()["id"],
        "text_columns": ["sentence"],
        "label_column": "label",
    }
    experiment_id = client.post("/api/experiments", json=body).json()["id"]
    with context.sessions.begin() as session:
        for run in session.scalars(select(Run).where(Run.experiment_id == experiment_id)):
            run.status, run.finished_at, run.performance = RunStatus.FINISHED, utcnow(), 0.5 + run.lam / 10
            run.isoscore_star = None if run.lam < 0 else 0.2
            run.isoscore_star_reason = REASON if run.lam < 0 else None
    return experiment_id


def test_a_run_without_isoscore_is_named_beside_the_plot_and_stands_in_its_numbers(client, experiment):
    page = every_tab(client, f"/experiments/{experiment}?seeds=on").text
    assert f"Not drawn, because IsoScore★ is undefined: λ = −1 seed 0. {REASON}" in page
    figures = f"/experiments/{experiment}/figures/isotropy"
    drawn = strict(client.get(f"{figures}.json").text)
    assert "λ = −1" not in json.dumps(drawn, ensure_ascii=False)
    lines = client.get(f"{figures}.csv?seeds=on").text.splitlines()
    assert lines[0] == "lambda,seed,performance,performance_reason,isoscore_star,isoscore_star_reason"
    assert lines[1] == f"-1.0,0,0.4,,,{REASON}"
    assert lines[2] == "0.0,0,0.5,,0.2,"


def test_a_sweep_of_which_no_run_has_isoscore_says_why_its_plot_is_empty(client, context, experiment):
    with context.sessions.begin() as session:
        for run in session.scalars(select(Run).where(Run.experiment_id == experiment)):
            run.isoscore_star, run.isoscore_star_reason = None, REASON
    page = every_tab(client, f"/experiments/{experiment}").text
    assert f"λ = −1 seed 0, λ = 0 seed 0, λ = 1 seed 0. {REASON}" in page
    assert 'data-export="png"' not in page.partition("Performance by isotropy")[2].partition("</figure>")[0]
