import json

import numpy as np
from sqlalchemy import select

from app.db.models import Embedding, MeasurementStatus, Run
from isotropy.catalog import MEASURES
from tests.factories import add_experiment, run_row
from tests.tabs import every_tab
from tests.uploads.good import npy

REASON = "The covariance is zero: all points are equal."
HOLES = np.where(np.eye(40, 6, -5, dtype=bool), np.nan, np.random.default_rng(0).standard_normal((40, 6)))
HOLES[20] = np.inf
UNDEFINED = {
    "equal rows": {"isoscore", "isoscore_star", "participation_ratio", "anisotropy_centred", "spectrum"},
    "zeros": {"isoscore", "mean_cosine", "mean_share", "anisotropy_raw", "anisotropy_centred"},
    "squares beyond float64": {"isoscore", "partition"},
    "one row": {"isoscore", "mean_cosine"},
    "one column": {"isoscore"},
}
MATRICES = (
    np.ones((40, 3), dtype=np.float32), np.zeros((40, 3)), np.full((40, 3), 1e200),
    np.ones((1, 3)), np.ones((40, 1)),
)  # fmt: skip


def parse_strictly(text):
    """Parse JSON as browsers and PostgreSQL do: NaN and infinity are errors."""

    def refuse(constant):
        raise AssertionError(f"{constant} in JSON")

    return json.loads(text, parse_constant=refuse)


def upload(client, work, *matrices):
    files = [("x.npy", npy(matrix)) for matrix in matrices]
    ids = [client.post("/api/embeddings?commit=auto", files={"file": file}).json()["id"] for file in files]
    work()
    return ids


def test_undefined_measure_is_null_with_reason_everywhere(client, context, work):
    ids = upload(client, work, *MATRICES)
    for embedding_id, (case, undefined) in zip(ids, UNDEFINED.items(), strict=True):
        with context.sessions() as session:
            rows = {row.measure: row for row in session.get_one(Embedding, embedding_id).measurements}
        assert undefined <= {slug for slug, row in rows.items() if row.status is MeasurementStatus.UNDEFINED}, case
        assert all((row.value is None) == bool(row.reason) for row in rows.values())
        answer = client.get(f"/api/embeddings/{embedding_id}")
        answered = {item["measure"]: item for item in parse_strictly(answer.text)["measurements"]}
        for slug in undefined:
            assert (answered[slug]["value"], answered[slug]["reason"]) == (None, rows[slug].reason)
        page = every_tab(client, f"/embeddings/{embedding_id}").text
        assert all(rows[slug].reason in page for slug in undefined - {"isoscore_star", "spectrum"})
        for slug in ("zeta", "activation", "spectrum", "anisotropy", "cosines"):
            parse_strictly(client.get(f"/embeddings/{embedding_id}/figures/{slug}.json").text)
            assert "nan" not in client.get(f"/embeddings/{embedding_id}/figures/{slug}.csv").text.lower()
        size = client.get(f"/api/embeddings/{embedding_id}/figure-data/sample_size").json()
        assert (size["rows"], size["reason"]) == ([], rows["isoscore"].reason)
        for line in parse_strictly(client.get(f"/api/embeddings/{embedding_id}/curves/zeta").text)["lines"]:
            assert all(value is None for value in line["values"])
            assert line["reason"]


def test_non_finite_rows_are_dropped_and_counted(client, work):
    (embedding_id,) = upload(client, work, HOLES)
    result = parse_strictly(client.get(f"/api/embeddings/{embedding_id}").text)
    left_out = int((~np.isfinite(HOLES)).any(axis=1).sum())
    assert result["n_left_out"] == left_out == 7
    unlabeled = {slug for slug, measure in MEASURES.items() if measure.group != "labels"}
    measured = [row for row in result["measurements"] if row["measure"] in unlabeled]
    assert {row["n"] for row in measured} == {40 - left_out}
    assert all(row["status"] == "ok" for row in measured)
    assert 'id="finding-not_finite"' in client.get(f"/embeddings/{embedding_id}").text
    assert f"empty cell: {left_out} of 40 rows." in client.get(f"/embeddings/{embedding_id}?tab=details").text


def test_run_without_isoscore_is_named_by_plot_and_in_csv(client, context):
    collapsed = {"isoscore_star": None, "isoscore_star_reason": REASON}
    runs = [
        run_row(lam, performance=0.5 + lam / 10, **collapsed if lam < 0 else {"isoscore_star": 0.2})
        for lam in (-1.0, 0.0, 1.0)
    ]
    experiment = add_experiment(context, *runs)
    page = every_tab(client, f"/experiments/{experiment}?seeds=on").text
    assert f"Not drawn, because IsoScore★ is undefined: λ = −1 seed 0. {REASON}" in page
    figures = f"/experiments/{experiment}/figures/isotropy"
    drawn = parse_strictly(client.get(f"{figures}.json").text)
    assert "λ = −1" not in json.dumps(drawn, ensure_ascii=False)
    lines = client.get(f"{figures}.csv?seeds=on").text.splitlines()
    assert lines[0] == "lambda,seed,performance,performance_reason,isoscore_star,isoscore_star_reason"
    assert lines[1] == f"-1.0,0,0.4,,,{REASON}"
    assert lines[2] == "0.0,0,0.5,,0.2,"
    with context.sessions.begin() as session:
        for run in session.scalars(select(Run).where(Run.experiment_id == experiment)):
            run.isoscore_star, run.isoscore_star_reason = None, REASON
    page = every_tab(client, f"/experiments/{experiment}").text
    assert f"λ = −1 seed 0, λ = 0 seed 0, λ = 1 seed 0. {REASON}" in page
    assert 'data-export="png"' not in page.partition("Performance by isotropy")[2].partition("</figure>")[0]
