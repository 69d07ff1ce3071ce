import pytest

from app.db.options.regularization import REGULARIZER_NAMES
from app.figures.palette import METHODS, lambda_color
from app.results.captions import describe_texts
from app.results.figures import legend
from app.results.figures.legend import DASHES
from app.results.labels import METRIC_AXES
from app.results.run_table import Setting
from isoscope.core.task import METRICS, Metric
from isotropy.catalog import REGULARIZERS, Regularizer
from tests.unit.figures.rows import run, sweep

ISTAR, COSREG, ENTROPY = Regularizer.ISTAR, Regularizer.COSREG, Regularizer.ENTROPY


def labels(table):
    return [table.label(setting) for setting in table.settings]


def by_family(table, field):
    return {
        table.family_label(family): [
            getattr(setting, field) for setting in table.settings if table.belongs(setting, family)
        ]
        for family in table.families
    }


def test_runs_that_differ_only_in_seed_are_one_setting():
    table = sweep(*(run(lam, seed) for lam in (1.0, 0.0) for seed in (0, 1, 2)))
    sizes = {table.label(setting): len(runs) for setting, runs in table.by_setting(table.runs).items()}
    assert sizes == {"λ = 0": 3, "λ = 1": 3}
    assert (table.heads, table.cells(table.settings[1])) == (["lambda"], [1.0])
    methods = ((ISTAR, 0.2), (ISTAR, 0.8), (COSREG, 0.2))
    runs = [run(1.0, regularizer=name, zeta=zeta, batch_size=rows) for name, zeta in methods for rows in (8, 32)]
    table = sweep(run(0.0, batch_size=8), *runs, batch_size=[8, 32], epochs=[3])
    assert labels(table) == [
        "baseline, batch size 8",
        "I-STAR, λ = 1, ζ = 0.2, batch size 8",
        "I-STAR, λ = 1, ζ = 0.8, batch size 8",
        "I-STAR, λ = 1, ζ = 0.2, batch size 32",
        "I-STAR, λ = 1, ζ = 0.8, batch size 32",
        "CosReg, λ = 1, batch size 8",
        "CosReg, λ = 1, batch size 32",
    ]
    assert table.heads == ["regularizer", "lambda", "zeta", "batch_size"]
    assert table.cells(table.settings[0]) == ["none", 0.0, None, 8]


def test_options_split_only_runs_that_use_them():
    runs = [
        run(lam, seed, regularizer=method, entropy_bars=bars)
        for seed, bars in enumerate(("prominent", "all"))
        for lam, method in ((0.0, ISTAR), (1.0, COSREG), (1.0, ENTROPY))
    ]
    entropy = [f"persistent entropy, λ = 1, entropy bars {bars}" for bars in ("prominent", "all")]
    assert labels(sweep(*runs, entropy_bars=["prominent", "all"])) == ["baseline", "CosReg, λ = 1", *entropy]
    padding = {"include_padding": [False, True]}
    unused = [run(1.0, seed, points="sentence", include_padding=bool(seed)) for seed in (0, 1)]
    assert sweep(*unused, **padding).heads == ["lambda"]
    assert sweep(*unused, run(0.5, include_padding=True), **padding).heads == ["lambda"]
    used = [run(1.0, include_padding=value) for value in (False, True)]
    assert sweep(*unused, *used, **padding).heads == ["lambda", "include_padding"]


def test_token_option_splits_runs_of_every_regularizer_on_tokens():
    points = ((ISTAR, None), (COSREG, None), (COSREG, "mean"), (ENTROPY, None), (ENTROPY, "tokens"))
    runs = [
        run(1.0, regularizer=method, points=kind, include_padding=padding)
        for padding in (True, False)
        for method, kind in points
    ]
    table = sweep(*runs, points=[None, "mean", "tokens"], include_padding=[True, False])
    assert {(setting.regularizer, *setting.values) for setting in table.settings} == {
        (ISTAR, "default", "yes"), (ISTAR, "default", "no"),
        (COSREG, "default", "yes"), (COSREG, "default", "no"),
        (COSREG, "mean", None),
        (ENTROPY, "default", None),
        (ENTROPY, "tokens", "yes"), (ENTROPY, "tokens", "no"),
    }  # fmt: skip


def test_lambda_zero_is_baseline_and_fixed_istar_keeps_its_zeta():
    runs = [run(0.0, zeta=zeta, fixed_regularizers={"istar": 0.5}) for zeta in (0.2, 0.8)]
    assert [setting.zeta for setting in sweep(*runs).settings] == [0.2, 0.8]
    assert [setting.zeta for setting in sweep(run(0.0), run(0.0, zeta=0.8)).settings] == [None]
    row = run(0.0)
    row.regularizer = COSREG
    (setting,) = sweep(row).settings
    assert setting == Setting(Regularizer.NONE, 0.0, None, ())
    assert setting.is_baseline


def test_values_keep_grid_order_and_extra_penalties_are_labeled():
    grid = {"layers": [None, "last", [1, 2]], "include_padding": [True, False]}
    runs = [run(1.0, layers=layers, include_padding=value) for layers in grid["layers"] for value in (True, False)]
    values = [setting.values for setting in sweep(*runs, **grid).settings]
    assert values == [(layers, padding) for layers in ("default", "last", "1, 2") for padding in ("yes", "no")]
    grid = {"fixed_regularizers": [{}, {"istar": 0.5, "cosreg": 1.0}]}
    runs = [
        run(lam, regularizer=ENTROPY, fixed_regularizers=fixed)
        for lam in (0.0, 1.0)
        for fixed in grid["fixed_regularizers"]
    ]
    penalties = ("none", "I-STAR 0.5; CosReg 1")
    assert labels(sweep(*runs, **grid)) == [
        f"λ = {lam}, extra penalties {text}" for lam in (0, 1) for text in penalties
    ]


def test_family_varies_lambda_and_includes_its_baseline():
    runs = [run(lam, batch_size=rows) for lam in (-1.0, 0.0, 1.0) for rows in (8, 32)]
    lams = by_family(sweep(*runs, batch_size=[8, 32]), "lam")
    assert lams == {"batch size 8": [-1, 0, 1], "batch size 32": [-1, 0, 1]}
    plain = sweep(*(run(0.0, batch_size=rows) for rows in (8, 32)), batch_size=[8, 32])
    assert [plain.family_label(family) for family in plain.families] == ["batch size 8", "batch size 32"]
    fixed = {"regularizer": COSREG, "fixed_regularizers": {"istar": 0.5}}
    with_istar = sweep(*(run(lam, zeta=zeta, **fixed) for lam in (0.0, 1.0) for zeta in (0.2, 0.8)))
    assert by_family(with_istar, "zeta") == {"ζ = 0.2": [0.2, 0.2], "ζ = 0.8": [0.8, 0.8]}


def test_describe_texts_counts_rows_or_windows():
    spans = [run(task="span", metric="word_f1", label_names=[])]
    texts = [describe_texts([run()]), describe_texts([run()], 1), describe_texts([run()], 1200)]
    assert texts == ["validation rows", "1 validation row", "1,200 validation rows"]
    assert [describe_texts(spans), describe_texts(spans, 1)] == ["windows of validation rows",
                                                                 "1 window of validation rows"]  # fmt: skip


def test_every_metric_and_regularizer_has_a_name():
    assert set(METRIC_AXES) == set(Metric) == {metric for metrics in METRICS.values() for metric in metrics}
    assert METRIC_AXES["accuracy"] == ("Accuracy", 0, 1)
    negative = {metric for metric, scale in METRIC_AXES.items() if scale.range == "−1 to 1"}
    assert negative == {Metric.MATTHEWS, Metric.PEARSON, Metric.SPEARMAN}
    assert {METRIC_AXES[metric].range for metric in set(Metric) - negative} == {"0 to 1"}
    assert set(REGULARIZER_NAMES) == set(Regularizer)
    assert len(set(REGULARIZER_NAMES.values())) == len(REGULARIZER_NAMES)
    assert set(REGULARIZERS) == set(Regularizer) - {Regularizer.NONE}


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
