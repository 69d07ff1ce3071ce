import pytest

from app.db.models import RunStatus
from app.results.conclusion.comparisons import Verdict
from app.results.run_table import RunTable
from app.results.statistics.estimate import Estimate
from app.results.tables.summary import SummaryColumn, SummaryRow, TableColumns, summarize_groups
from isotropy.catalog import Regularizer
from tests.unit.figures.rows import run
from tests.unit.tables.rows import experiment


def tabulate(*runs, fields=("lam",), columns=TableColumns.PERFORMANCE, metrics=None):
    return summarize_groups(RunTable(list(runs)), list(fields), columns, metrics or {}, {})


def test_mean_and_half_width_match_hand_computation():
    # Of 1, 2, 4: mean 7/3; squares of deviations 16/9 + 1/9 + 25/9 = 42/9, over 2.
    runs = [run(0.0, seed, value) for seed, value in enumerate((1.0, 2.0, 4.0))]
    runs += [run(1.0, 0, 0.5), run(2.0, 0, None)]
    assert [row.cells for row in tabulate(*experiment("a", *runs)).rows] == [
        [Estimate(pytest.approx(7 / 3), pytest.approx(4.302653 * (7 / 3) ** 0.5 / 3**0.5), 3)],
        [Estimate(0.5, None, 1)],
        [None],
    ]  # fmt: skip


def test_rows_are_groups_and_columns_are_tasks():
    cola = [run(lam, seed, 0.5 + seed / 10 + lam, metric="matthews") for lam in (1.0, 0.0) for seed in (0, 1)]
    sst = [run(0.0, seed, 0.75, metric="accuracy") for seed in (0, 1, 2)]
    table = tabulate(*experiment("a", *cola), *experiment("b", *sst, on="SST-2"))
    assert table.heads == ["λ"]
    assert table.columns == [SummaryColumn("CoLA", "Matthews correlation"), SummaryColumn("SST-2", "Accuracy")]
    deviation = pytest.approx(12.7062 * 0.05, rel=1e-5)
    assert table.rows == [
        SummaryRow(["0"], [Estimate(pytest.approx(0.55), deviation, 2), Estimate(0.75, 0.0, 3)]),
        SummaryRow(["1"], [Estimate(pytest.approx(1.55), deviation, 2), None]),
    ]
    assert table.notes == []


def test_different_metrics_and_data_sets_are_averaged_separately():
    runs = [run(0.0, 0, 0.25, metric="matthews"), run(0.0, 1, 0.75, metric="accuracy")]
    mrpc_runs = experiment("b", run(0.0, 2, 0.5, metric="accuracy"), on="MRPC")
    table = tabulate(*experiment("a", *runs), *mrpc_runs, fields=())
    assert [(column.dataset, column.measure) for column in table.columns] == [
        ("CoLA", "Accuracy"), ("CoLA", "Matthews correlation"), ("MRPC", "Accuracy"),
    ]  # fmt: skip
    assert [cell.mean for cell in table.rows[0].cells] == [0.75, 0.25, 0.5]


def test_isotropy_at_different_zeta_is_averaged_separately():
    runs = [run(0.0, seed, 0.5, 0.2 + zeta, evaluation_zeta=zeta) for seed, zeta in ((0, 0.0), (1, 0.5))]
    table = tabulate(*experiment("a", *runs), fields=(), columns=TableColumns.PERFORMANCE_AND_ISOTROPY)
    assert table.columns == [
        SummaryColumn("CoLA", "Accuracy"),
        SummaryColumn("CoLA", "IsoScore★ at ζ = 0", greater_is_better=False),
        SummaryColumn("CoLA", "IsoScore★ at ζ = 0.5", greater_is_better=False),
    ]
    assert [cell.n for cell in table.rows[0].cells] == [2, 1, 1]


def test_requested_metrics_are_columns_with_missing_runs_noted():
    runs = experiment("a", run(0.0, 0), run(0.0, 1), run(0.0, 2))
    metrics = {runs[0].id: {"accuracy": 0.5, "f1": None}, runs[1].id: {"accuracy": 0.75, "f1": 0.25}}
    table = tabulate(*runs, fields=(), columns=TableColumns.METRICS, metrics=metrics)
    assert [column.measure for column in table.columns] == ["Accuracy", "F1"]
    assert [(cell.mean, cell.n) for cell in table.rows[0].cells] == [(0.625, 2), (0.25, 1)]
    assert table.notes == [
        "Left out, because there is no Accuracy: 1 run.",
        "Left out, because there is no F1: 2 runs.",
    ]


def test_notes_state_averaged_and_excluded_runs():
    runs = [
        run(0.0, 0, batch_size=8),
        run(0.0, 0, batch_size=32),
        run(0.0, 1, None),
        run(0.0, 2, None, status=RunStatus.RUNNING),
    ]
    table = tabulate(*experiment("a", *runs))
    assert table.notes == [
        "Runs in one mean differ in batch size too.",
        "Left out, because it has not finished: 1 run.",
        "Left out, because performance is undefined: 1 run.",
        "A seed of several runs counts once, by their mean: 0, seed 0.",
    ]
    assert table.rows[0].cells[0] == Estimate(0.8, None, 1)


def test_repeated_seed_counts_once():
    once = [run(0.0, seed, 0.5 + seed / 10) for seed in (0, 1)]
    assert tabulate(*experiment("a", *once, *once)).rows == tabulate(*experiment("a", *once)).rows
    assert tabulate(*experiment("a", *once)).rows[0].cells[0].n == 2
    assert tabulate(*experiment("a", *once)).notes == []
    assert tabulate(*experiment("a", *once, once[1]), columns=TableColumns.PERFORMANCE_AND_ISOTROPY).notes == [
        "A seed of several runs counts once, by their mean: 0, seed 1."
    ]


def test_best_verdict_is_marked_in_column_of_its_metric():
    runs = experiment("a", run(0.0, 0), run(1.0, 0, 0.99), run(1.0, 1, 0.98))
    best = {run.id: Verdict.BETTER for run in runs if run.lam == 1}
    table = summarize_groups(RunTable(runs), ["lam"], TableColumns.PERFORMANCE_AND_ISOTROPY, {}, best)
    assert [(row.labels, row.verdicts) for row in table.rows] == [
        (["0"], {}), (["1"], {SummaryColumn("CoLA", "Accuracy"): Verdict.BETTER}),
    ]  # fmt: skip
    mixed = summarize_groups(RunTable(runs), [], TableColumns.PERFORMANCE, {}, best)
    assert [row.verdicts for row in mixed.rows] == [{}]


def test_table_of_isotropy_alone_marks_collapsed_settings():
    runs = experiment("a", run(0.0, 0), run(-1.0, 0, 0.5), run(1.0, 0, 0.9))
    verdicts = {run.id: {-1.0: Verdict.COLLAPSED, 1.0: Verdict.BETTER}.get(run.lam) for run in runs}
    table = summarize_groups(RunTable(runs), ["lam"], TableColumns.ISOTROPY, {}, verdicts)
    assert [[*row.verdicts.values()] for row in table.rows] == [[Verdict.COLLAPSED], [], []]


def test_rows_are_sorted_by_regularizer_and_lambda():
    methods = (Regularizer.ENTROPY, Regularizer.ISTAR, Regularizer.COSREG)
    runs = [run(lam, regularizer=method) for method in methods for lam in (10.0, -1.0, 2.0)]
    table = tabulate(*experiment("a", run(0.0), *runs), fields=("regularizer", "lam", "zeta"))
    assert [row.labels for row in table.rows][:4] == [
        ["none", "0", "–"],
        *(["I-STAR", label, "0.2"] for label in ("−1", "2", "10")),
    ]
    assert [row.labels[0] for row in table.rows][4::3] == ["CosReg", "persistent entropy"]


def test_table_has_unrounded_row_for_each_cell():
    table = tabulate(*experiment("a", run(0.0, 0, 0.123456789), run(1.0, 0, None)))
    assert table.table().columns == ["λ", "data set", "measure", "mean", "ci95_half_width", "n"]
    assert table.table().rows == [
        ["0", "CoLA", "Accuracy", 0.123456789, None, 1],
        ["1", "CoLA", "Accuracy", None, None, 0],
    ]
