import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tables import latex, markdown
from app.tables.printed import Style, decimals_of, fixed, printed
from app.tables.summary import Column, Moments, Row, Summary

ACCURACY = Column("CoLA", "Accuracy")
ISOTROPY = Column("CoLA", "IsoScore★", greater_is_better=False)
BY_LAMBDA = Summary(
    ["Model", "λ"],
    [ACCURACY, ISOTROPY],
    [
        Row(["bert_base", "−1"], [Moments(0.84731, 0.01234, 5), Moments(0.1234, 0.0012, 5)]),
        Row(["bert_base", "0"], [Moments(0.85561, 0.00812, 5), None]),
        Row(["bert_base", "1"], [Moments(-0.002, None, 1), Moments(0.9, 0.0, 5)]),
    ],
    ["Runs in one mean differ in batch size too."],
)
CAPTION = (
    "Mean ± standard deviation of each measure on CoLA over runs (n = 1 to 5). A single run has no standard deviation. "
    "Bold: the greatest mean of a column. Runs in one mean differ in batch size too."
)


@pytest.mark.parametrize(
    ("deviations", "decimals"),
    [([0.0123], 3), ([0.0996], 2), ([0.0994], 3), ([1.5], 1), ([42.0], 0), ([1234.0], 0), ([1e-12], 6), ([0.0], 3),
     ([None], 3), ([0.02, 0.0031, 0.2], 3), ([0.2, 0.003], 2)],
)  # fmt: skip
def test_decimals_give_the_middle_deviation_two_digits(deviations, decimals):
    assert decimals_of([Moments(0.5, std, 3) for std in deviations]) == decimals


def test_a_rounded_zero_has_no_minus():
    assert [fixed(value, 2) for value in (-0.001, 0.0, -0.01, -1.005)] == ["0.00", "0.00", "-0.01", "-1.00"]


def test_latex_as_it_is_pasted():
    assert latex.latex(printed(BY_LAMBDA, Style())) == (
        "% \\usepackage{booktabs}\n"
        "\\begin{table}\n"
        "  \\centering\n"
        "  \\caption{" + CAPTION.replace("±", r"$\pm$") + "}\n"
        "  \\begin{tabular}{llrr}\n"
        "    \\toprule\n"
        "    Model & $\\lambda$ & Accuracy & IsoScore$^\\star$ \\\\\n"
        "    \\midrule\n"
        "    bert\\_base & $-$1 & $0.847 \\pm 0.012$ & $0.1234 \\pm 0.0012$ \\\\\n"
        "    bert\\_base & 0 & $\\mathbf{0.856 \\pm 0.008}$ & -- \\\\\n"
        "    bert\\_base & 1 & $-0.002$ & $0.9000 \\pm 0.0000$ \\\\\n"
        "    \\bottomrule\n"
        "  \\end{tabular}\n"
        "\\end{table}\n"
    )


def test_markdown_as_it_is_pasted():
    assert markdown.markdown(printed(BY_LAMBDA, Style(decimals=2, bold=False))) == (
        CAPTION.replace(" Bold: the greatest mean of a column.", "") + "\n\n"
        "| Model | λ | Accuracy | IsoScore★ |\n"
        "| :-- | :-- | --: | --: |\n"
        "| bert\\_base | −1 | 0.85 ± 0.01 | 0.12 ± 0.00 |\n"
        "| bert\\_base | 0 | 0.86 ± 0.01 | – |\n"
        "| bert\\_base | 1 | 0.00 | 0.90 ± 0.00 |\n"
    )  # fmt: skip


def test_means_that_are_printed_alike_are_equally_good():
    rows = [Row([name], [Moments(mean, 0.1, 3)]) for name, mean in (("a", 0.501), ("b", 0.499), ("c", 0.4))]
    table = printed(Summary(["Model"], [ACCURACY], rows, []), Style())
    assert [line.cells[0].best for line in table.lines] == [True, True, False]


def test_one_group_alone_is_not_the_best():
    table = printed(Summary(["Model"], [ACCURACY], [Row(["a"], [Moments(0.5, 0.1, 3)])], []), Style())
    assert not table.lines[0].cells[0].best
    assert table.caption == "Mean ± standard deviation of Accuracy on CoLA over runs (n = 3)."
    alike = [Row([name], [Moments(mean, 0.1, 3)]) for name, mean in (("a", 0.501), ("b", 0.499))]
    table = printed(Summary(["Model"], [ACCURACY], alike, []), Style())
    assert [line.cells[0].best for line in table.lines] == [False, False]


def test_heads_say_what_differs_and_the_caption_the_rest():
    both = [Moments(0.5, 0.1, 3), Moments(0.5, 0.1, 3)]

    def told(*columns):
        table = printed(Summary([], list(columns), [Row([], both)], []), Style())
        return table.columns, table.caption.partition(" over ")[0]

    assert told(ACCURACY, Column("MRPC", "Accuracy")) == (
        ["CoLA", "MRPC"], "Mean ± standard deviation of Accuracy on each data set",
    )  # fmt: skip
    assert told(ACCURACY, Column("MRPC", "F1")) == (
        ["CoLA, Accuracy", "MRPC, F1"], "Mean ± standard deviation of each measure on each data set",
    )  # fmt: skip


def test_single_runs_have_no_deviation_and_none_at_all_says_so():
    one = printed(Summary([], [ACCURACY], [Row([], [Moments(0.5, None, 1)])], []), Style())
    assert one.caption == "Accuracy on CoLA of single runs (n = 1), which have no standard deviation."
    none = printed(Summary(["λ"], [], [], ["Left out."]), Style())
    assert none.caption == "No finished run has a value. Left out."
    assert none.lines == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a_b & 50% of $5 #1 {x}", r"a\_b \& 50\% of \$5 \#1 \{x\}"),
        ("a\\b~c^d", r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d"),
        ("[1] * <x> |y|", r"{[}1{]} {*} \textless{}x\textgreater{} \textbar{}y\textbar{}"),
        ("\\input{/etc/passwd}\n\n% gone", r"\textbackslash{}input\{/etc/passwd\} \% gone"),
        ("λ = −1, ζ, IsoScore★", r"$\lambda$ = $-$1, $\zeta$, IsoScore$^\star$"),
    ],
)
def test_latex_special_characters_are_escaped(text, expected):
    assert latex.escaped(text) == expected


def test_markdown_special_characters_are_escaped():
    assert markdown.escaped("a|b_c*d`e<f>[g](h)\n\\ & ~") == r"a\|b\_c\*d\`e\<f\>\[g\](h) \\ \& \~"


TEXTS = st.text() | st.text(alphabet='\\{}$&%#_~^<>|"`[]*λ\n ab')


@given(TEXTS)
def test_no_escaped_text_has_a_bare_special_character_in_latex(text):
    rest = latex.escaped(text)
    for command in sorted(set(latex.COMMANDS.values()), key=len, reverse=True):
        rest = rest.replace(command, "")
    assert not re.search(r"[\\{}$&%#_~^<>|\"`\[\]*\n]", rest)


@given(TEXTS)
def test_no_escaped_text_has_a_bare_special_character_in_markdown(text):
    rest = re.sub(r"\\[!-/:-@\[-`{-~]", "", markdown.escaped(text))
    assert not re.search(r"[\\|_*`<>\[\]&#~$!\n]", rest)


@given(TEXTS, TEXTS)
def test_whatever_is_called_what_a_table_keeps_its_rows_and_columns(model, dataset):
    rows = [Row([model], [Moments(0.5, 0.1, 3)])] * 2
    table = printed(Summary(["Model"], [Column(dataset, "F1")], rows, []), Style())
    tex = latex.latex(table).splitlines()
    assert len(tex) == 13
    assert [len(re.findall(r"(?<!\\)&", line)) for line in tex if line.endswith(r" \\")] == [1, 1, 1]
    lines = markdown.markdown(table).splitlines()
    assert len(lines) == 6
    assert [len(re.findall(r"(?<!\\)\|", re.sub(r"\\\\", "", line))) for line in lines[2:]] == [3, 3, 3, 3]
