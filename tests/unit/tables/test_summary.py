import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.db.models import Experiment, RunStatus
from app.results.conclusion.comparisons import Verdict
from app.results.run_table import RunTable
from app.results.statistics.estimate import Estimate
from app.results.tables import texts
from app.results.tables.printed import PrintStyle, choose_decimals, format_fixed, print_summary
from app.results.tables.summary import SummaryColumn, SummaryRow, SummaryTable, TableColumns, summarize_groups
from isotropy.catalog import Regularizer
from tests.factories import SHARED, dataset_row
from tests.unit.figures.rows import run

DATASETS = {name: dataset_row(name, id=f"d-{name}") for name in ("CoLA", "SST-2", "MRPC")}


def experiment(name, *runs, on="CoLA"):
    experiment_row = Experiment(id=f"e-{name}", name=name, dataset=DATASETS[on], config=SHARED, grid={})
    experiment_row.dataset_id = DATASETS[on].id
    for row in runs:
        row.experiment, row.experiment_id = experiment_row, experiment_row.id
    return list(runs)


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
    sentences = ["Left out, because there is no Accuracy: 1 run.", "Left out, because there is no F1: 2 runs."]
    assert table.notes == sentences


def test_notes_state_averaged_and_excluded_runs():
    unfinished = run(0.0, 2, None, status=RunStatus.RUNNING)
    runs = [run(0.0, 0, batch_size=8), run(0.0, 0, batch_size=32), run(0.0, 1, None), unfinished]
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
    istar = [["I-STAR", label, "0.2"] for label in ("−1", "2", "10")]
    assert [row.labels for row in table.rows][:4] == [["none", "0", "–"], *istar]
    assert [row.labels[0] for row in table.rows][4::3] == ["CosReg", "persistent entropy"]


def test_table_has_unrounded_row_for_each_cell():
    table = tabulate(*experiment("a", run(0.0, 0, 0.123456789), run(1.0, 0, None)))
    assert table.table().columns == ["λ", "data set", "measure", "mean", "ci95_half_width", "n"]
    assert table.table().rows[0] == ["0", "CoLA", "Accuracy", 0.123456789, None, 1]
    assert table.table().rows[1:] == [["1", "CoLA", "Accuracy", None, None, 0]]


ACCURACY = SummaryColumn("CoLA", "Accuracy")
ISOTROPY = SummaryColumn("CoLA", "IsoScore★", greater_is_better=False)
BY_LAMBDA = SummaryTable(
    ["Model", "λ"],
    [ACCURACY, ISOTROPY],
    [
        SummaryRow(
            ["bert_base", "−1"],
            [Estimate(0.84731, 0.01234, 5), Estimate(0.1234, 0.0012, 5)],
            {ACCURACY: Verdict.COLLAPSED},
        ),
        SummaryRow(["bert_base", "0"], [Estimate(0.85561, 0.00812, 5), None], {ACCURACY: Verdict.BETTER}),
        SummaryRow(["bert_base", "1"], [Estimate(-0.002, None, 1), Estimate(0.9, 0.0, 5)]),
    ],
    ["Runs in one mean differ in batch size too."],
)
CAPTION = (
    "Mean ± half the 95% interval of each measure on CoLA over seeds (n = 5 unless a cell says otherwise). "
    "A single seed has no interval. "
    "All equal: the seeds have the same score, so their error is unknown. "
    "Collapsed: most seeds give the same prediction for nearly all rows, or diverged. "
    "Bold: better than the baseline by a verdict, and by the most. Runs in one mean differ in batch size too."
)


@pytest.mark.parametrize(
    ("deviations", "decimals"),
    [([0.0123], 3), ([0.0996], 2), ([0.0994], 3), ([1.5], 1), ([42.0], 0), ([1234.0], 0), ([1e-12], 6), ([0.0], 3),
     ([None], 3), ([0.02, 0.0031, 0.2], 3), ([0.2, 0.003], 2)],
)  # fmt: skip
def test_decimals_give_the_middle_deviation_two_digits(deviations, decimals):
    assert choose_decimals([Estimate(0.5, std, 3) for std in deviations]) == decimals


def test_latex_matches_expected_text():
    assert texts.format_latex(print_summary(BY_LAMBDA, PrintStyle())) == (
        "% \\usepackage{booktabs}\n"
        "\\begin{table}\n"
        "  \\centering\n"
        "  \\caption{" + CAPTION.replace("±", r"$\pm$").replace("%", r"\%") + "}\n"
        "  \\begin{tabular}{llrr}\n"
        "    \\toprule\n"
        "    Model & $\\lambda$ & Accuracy $\\pm$ 95\\% & IsoScore$^\\star$ $\\pm$ 95\\% \\\\\n"
        "    \\midrule\n"
        "    bert\\_base & $-$1 & $0.847 \\pm 0.012$ (collapsed) & $0.1234 \\pm 0.0012$ \\\\\n"
        "    bert\\_base & 0 & $\\mathbf{0.856 \\pm 0.008}$ & -- \\\\\n"
        "    bert\\_base & 1 & $-0.002$ ($n$ = 1) & $0.9000$ (all equal) \\\\\n"
        "    \\bottomrule\n"
        "  \\end{tabular}\n"
        "\\end{table}\n"
    )


def test_markdown_matches_expected_text():
    assert texts.format_markdown(print_summary(BY_LAMBDA, PrintStyle(decimals=2, bold=False))) == (
        CAPTION.replace(" Bold: better than the baseline by a verdict, and by the most.", "") + "\n\n"
        "| Model | λ | Accuracy ± 95% | IsoScore★ ± 95% |\n"
        "| :-- | :-- | --: | --: |\n"
        "| bert\\_base | −1 | 0.85 ± 0.01 (collapsed) | 0.12 ± 0.001 |\n"
        "| bert\\_base | 0 | 0.86 ± 0.01 | – |\n"
        "| bert\\_base | 1 | 0.00 (n = 1) | 0.90 (all equal) |\n"
    )  # fmt: skip
    assert texts.escape_markdown("a|b_c*d`e<f>[g](h)\n\\ & ~") == r"a\|b\_c\*d\`e\<f\>\[g\](h) \\ \& \~"


def test_bold_needs_a_verdict():
    rows = [SummaryRow(["a"], [Estimate(0.5, 0.1, 3)])]
    table = print_summary(SummaryTable(["Model"], [ACCURACY], rows, []), PrintStyle())
    assert not table.rows[0].cells[0].best
    assert table.caption == "Mean ± half the 95% interval of Accuracy on CoLA over seeds (n = 3)."
    alike = [SummaryRow([name], [Estimate(mean, 0.1, 3)]) for name, mean in (("a", 0.501), ("b", 0.499))]
    table = print_summary(SummaryTable(["Model"], [ACCURACY], alike, []), PrintStyle())
    assert [row.cells[0].best for row in table.rows] == [False, False]


def test_heads_name_differences_and_caption_shared_parts():
    cells = [Estimate(0.5, 0.1, 3), Estimate(0.5, 0.1, 3)]

    def describe(*columns):
        table = print_summary(SummaryTable([], list(columns), [SummaryRow([], cells)], []), PrintStyle())
        return table.columns, table.caption.partition(" over ")[0]

    assert describe(ACCURACY, SummaryColumn("MRPC", "Accuracy")) == (
        ["CoLA ± 95%", "MRPC ± 95%"], "Mean ± half the 95% interval of Accuracy on each data set",
    )  # fmt: skip
    assert describe(ACCURACY, SummaryColumn("MRPC", "F1")) == (
        ["CoLA, Accuracy ± 95%", "MRPC, F1 ± 95%"], "Mean ± half the 95% interval of each measure on each data set",
    )  # fmt: skip


def test_caption_of_single_or_no_runs():
    single = print_summary(SummaryTable([], [ACCURACY], [SummaryRow([], [Estimate(0.5, None, 1)])], []), PrintStyle())
    assert single.caption == "Accuracy on CoLA of single seeds (n = 1), which have no interval."
    none = print_summary(SummaryTable(["λ"], [], [], ["Left out."]), PrintStyle())
    assert none.caption == "No finished run has a value. Left out."
    assert none.rows == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a_b & 50% of $5 #1 {x}", r"a\_b \& 50\% of \$5 \#1 \{x\}"),
        ("a\\b~c^d", r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d"),
        ("[1] * <x> |y|", r"{[}1{]} {*} \textless{}x\textgreater{} \textbar{}y\textbar{}"),
        ("\\input{/etc/passwd}\n\n% gone", r"\textbackslash{}input\{/etc/passwd\} \% gone"),
        ("λ = −1, ζ, IsoScore★", r"$\lambda$ = $-$1, $\zeta$, IsoScore$^\star$"),
        ('a "b" c', "a ''b'' c"),
        ("a--b---c ,,d", "a-{}-b-{}-{}-c ,{},d"),
        ("''a <<b>> ?`", r"'{}'a \textless{}\textless{}b\textgreater{}\textgreater{} ?\textasciigrave{}"),
    ],
)
def test_latex_special_characters_are_escaped(text, expected):
    assert texts.escape_latex(text) == expected


@pytest.mark.parametrize(
    ("text", "beyond"),
    [("λ ± 1, ζ ★ − …", False), ("Müller, Łódź, naïve", False), ("→", True), ("Ж", True), ("漢", True), ("≥", True)],
)
def test_latex_asks_for_other_engine_only_if_needed(text, beyond):
    rows = [SummaryRow([text], [Estimate(0.5, 0.1, 3)])]
    table = print_summary(SummaryTable(["Model"], [ACCURACY], rows, []), PrintStyle())
    describe = "% Compile with XeLaTeX or LuaLaTeX: it has characters that pdfLaTeX does not know."
    assert (describe in texts.format_latex(table)) == beyond


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://evil.example/x", "https:<!-- -->//evil.example/x"),
        ("Www.evil.example", "Www<!-- -->.evil.example"),
        (":tada: x", ":<!-- -->tada: x"),
        ("@user a@b.c", r"\@<!-- -->user a\@<!-- -->b.c"),
        ("issue #12", r"issue \#<!-- -->12"),
        ("lam: 1, a:b", "lam: 1, a:b"),
    ],
)
def test_github_markup_in_names_is_escaped(text, expected):
    assert texts.escape_markdown(text) == expected


TEXTS = st.text() | st.text(alphabet='\\{}$&%#_~^<>|"`[]*λ\n ab-,@:/w.1')


@given(TEXTS)
def test_escaped_texts_have_no_bare_special_characters(text):
    remaining = texts.escape_latex(text)
    assert not re.search("--|,,", remaining)
    for command in sorted({*texts.LATEX_COMMANDS.values(), "{}"}, key=len, reverse=True):
        remaining = remaining.replace(command, "")
    assert not re.search(r"[\\{}$&%#_~^<>|\"`\[\]*\n]", remaining)
    remaining = re.sub(r"\\[!-/:-@\[-`{-~]|<!-- -->", "", texts.escape_markdown(text))
    assert not re.search(r"[\\|_*`<>\[\]&#~$!\n]", remaining)


@given(TEXTS, TEXTS)
def test_any_names_keep_rows_and_columns(model, dataset):
    rows = [SummaryRow([model], [Estimate(0.5, 0.1, 3)])] * 2
    table = print_summary(SummaryTable(["Model"], [SummaryColumn(dataset, "F1")], rows, []), PrintStyle())
    tex = texts.format_latex(table).splitlines()
    tex = [line for line in tex if line != texts.ENGINE_COMMENT]
    assert len(tex) == 13
    assert [len(re.findall(r"(?<!\\)&", line)) for line in tex if line.endswith(r" \\")] == [1, 1, 1]
    lines = texts.format_markdown(table).splitlines()
    assert len(lines) == 6
    assert [len(re.findall(r"(?<!\\)\|", re.sub(r"\\\\", "", line))) for line in lines[2:]] == [3, 3, 3, 3]


def test_half_width_is_not_printed_as_0_nor_zero_as_minus_0():
    cells = [Estimate(0.5, half_width, 3) for half_width in (0.05, 0.0004, 1e-17)]
    rows = [SummaryRow([str(index)], [cell]) for index, cell in enumerate(cells)]
    printed = print_summary(SummaryTable(["λ"], [SummaryColumn("RTE", "Accuracy")], rows, []), PrintStyle(decimals=2))
    assert [row.cells[0].half_width for row in printed.rows] == ["0.05", "0.0004", None]
    assert printed.rows[2].cells[0].size == "all equal"
    assert [format_fixed(value, 2) for value in (-0.001, 0.0, -0.01, -1.005)] == ["0.00", "0.00", "-0.01", "-1.00"]
