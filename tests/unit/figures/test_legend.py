import pytest

from app.figures.palette import METHODS, lambda_color
from app.results.figures import legend
from app.results.figures.legend import DASHES
from isotropy.catalog import Regularizer
from tests.unit.figures.rows import run, sweep

ISTAR, COSREG = Regularizer.ISTAR, Regularizer.COSREG
PLAIN = sweep(*(run(0.0, batch_size=rows) for rows in (8, 32)), batch_size=[8, 32])


def sweep_of_models(*names):
    return sweep(*(run(1.0, model=name) for name in names), model=names)


def test_colors_encode_lambda_or_method_and_dashes_encode_lambda():
    table = sweep(run(0.0), run(1.0))
    assert [legend.color(table, setting) for setting in table.settings] == [lambda_color(0), lambda_color(1)]
    table = sweep(run(0.0), run(-1.0), run(1.0), run(1.0, regularizer=COSREG))
    colors = [METHODS[ISTAR], lambda_color(0), METHODS[ISTAR], METHODS[COSREG]]
    dashes = [DASHES[index] for index in (0, 0, 1, 0)]
    symbols = ["circle", "circle", "circle", "square"]
    assert [legend.color(table, setting) for setting in table.settings] == colors
    assert [legend.dash(table, setting) for setting in table.settings] == dashes
    assert [legend.symbol(table, setting.family) for setting in table.settings] == symbols
    assert [legend.symbol(PLAIN, setting.family) for setting in PLAIN.settings] == ["circle", "square"]
    table = sweep(*(run(lam) for lam in (-3.0, -1.0, 0.0, 1.0, 3.0)))
    dashes = [legend.dash(table, setting) for setting in table.settings]
    assert dashes == [DASHES[index] for index in (1, 0, 0, 0, 1)]


@pytest.mark.parametrize(("n", "names"), [(8, [f"λ = 1, epochs {i}" for i in range(1, 9)]), (9, ["λ = 1"])])
def test_many_lines_share_legend_entries_by_color(n, names):
    epochs = list(range(1, n + 1))
    table = sweep(*(run(1.0, epochs=i) for i in epochs), epochs=epochs)
    entries = [legend.entry(table, setting, table.settings) for setting in table.settings]
    assert [entry["name"] for entry in entries if entry.get("showlegend", True)] == names


def test_long_legend_entries_drop_redundant_fields():
    grid = {"batch_size": [8, 16], "learning_rate": [1e-4, 1e-3], "max_length": [64, 128], "max_steps": [5, 120]}
    rows = [(8, 1e-4, 64, 5), (16, 1e-3, 128, 5), (16, 1e-3, 128, 120)]
    table = sweep(*(run(1.0, epochs=None, **dict(zip(grid, row, strict=True))) for row in rows), **grid)
    assert max(len(table.family_label(family)) for family in table.families) > legend.MAX_NAME_LENGTH
    names = [f"batch size {row[0]}, max steps {row[3]}" for row in rows]
    assert legend.legend_names(table, table.families, table.family_label) == names
    entries = [legend.entry(table, setting, table.settings)["name"] for setting in table.settings]
    assert entries == [f"λ = 1, {name}" for name in names]
    assert legend.legend_names(PLAIN, PLAIN.families, PLAIN.family_label) == ["batch size 8", "batch size 32"]
    long = sweep_of_models(*(f"{'one-and-the-same-beginning-' * 2}{i}-one-and-the-same-end-of-it" for i in (1, 2)))
    assert len(set(legend.legend_names(long, long.families, long.family_label))) == 2


def test_hover_label_is_complete_and_escaped():
    names = [f"{'settings ' * 12}{end}" for end in ("<one>", "two")]
    table = sweep_of_models(*names)
    first, second = legend.hover_label(table, table.settings[0]).split("<br>")
    assert f"{first} {second}" == f"λ = 1, {'settings ' * 12}&lt;one&gt;"
    endless = sweep_of_models(*(name * 9 for name in names))
    label = legend.hover_label(endless, endless.settings[0])
    assert (label.count("<br>"), label[-1]) == (5, "…")
