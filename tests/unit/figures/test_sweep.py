from app.results.setting import Setting
from isotropy.catalog import Regularizer
from tests.unit.figures.rows import run, sweep

ISTAR, COSREG, ENTROPY = Regularizer.ISTAR, Regularizer.COSREG, Regularizer.ENTROPY


def labels(one):
    return [one.label(setting) for setting in one.settings]


def test_runs_that_differ_in_their_seed_alone_are_one_setting():
    one = sweep(*(run(lam, seed) for lam in (1.0, 0.0) for seed in (0, 1, 2)))
    assert labels(one) == ["λ = 0", "λ = 1"]
    assert {one.label(setting): len(runs) for setting, runs in one.by_setting(one.runs).items()} == {
        "λ = 0": 3,
        "λ = 1": 3,
    }
    assert (one.heads, one.cells(one.settings[1])) == (["lambda"], [1.0])


def test_a_label_has_what_varies_and_nothing_else():
    one = sweep(
        run(0.0, batch_size=8),
        *(run(1.0, regularizer=method, zeta=zeta, batch_size=rows)
          for method, zeta in ((ISTAR, 0.2), (ISTAR, 0.8), (COSREG, 0.2)) for rows in (8, 32)),
        batch_size=[8, 32],
        epochs=[3],
    )  # fmt: skip
    assert labels(one) == [
        "none, batch size 8",
        "I-STAR, λ = 1, ζ = 0.2, batch size 8",
        "I-STAR, λ = 1, ζ = 0.8, batch size 8",
        "I-STAR, λ = 1, ζ = 0.2, batch size 32",
        "I-STAR, λ = 1, ζ = 0.8, batch size 32",
        "CosReg, λ = 1, batch size 8",
        "CosReg, λ = 1, batch size 32",
    ]
    assert one.heads == ["regularizer", "lambda", "zeta", "batch_size"]
    assert one.cells(one.settings[0]) == ["none", 0.0, None, 8]


def test_what_a_regularizer_does_not_read_does_not_split_its_runs():
    runs = [
        run(lam, seed, regularizer=method, entropy_bars=bars)
        for seed, bars in enumerate(("prominent", "all"))
        for lam, method in ((0.0, ISTAR), (1.0, COSREG), (1.0, ENTROPY))
    ]
    one = sweep(*runs, entropy_bars=["prominent", "all"])
    assert labels(one) == [
        "none",
        "CosReg, λ = 1",
        "persistent entropy, λ = 1, entropy bars prominent",
        "persistent entropy, λ = 1, entropy bars all",
    ]


def test_what_no_run_reads_is_no_column():
    runs = [run(1.0, seed, points="sentence", include_padding=padding) for seed, padding in enumerate((False, True))]
    assert sweep(*runs, include_padding=[False, True]).heads == ["lambda"]
    assert sweep(*runs, run(0.5, include_padding=True), include_padding=[False, True]).heads == ["lambda"]
    read = [run(1.0, include_padding=padding) for padding in (False, True)]
    assert sweep(*runs, *read, include_padding=[False, True]).heads == ["lambda", "include_padding"]


def test_zeta_matters_to_the_baseline_where_i_star_accompanies_it():
    runs = [run(0.0, zeta=zeta, fixed_regularizers={"istar": 0.5}) for zeta in (0.2, 0.8)]
    assert [setting.zeta for setting in sweep(*runs).settings] == [0.2, 0.8]
    assert [setting.zeta for setting in sweep(run(0.0), run(0.0, zeta=0.8)).settings] == [None]


def test_values_of_a_grid_keep_its_order_and_read_as_words():
    grid = {"layers": [None, "last", [1, 2]], "include_padding": [True, False]}
    one = sweep(
        *(run(1.0, layers=layers, include_padding=padding) for layers in grid["layers"] for padding in (True, False)),
        **grid,
    )
    assert [setting.values for setting in one.settings] == [
        ("default", "yes"),
        ("default", "no"),
        ("last", "yes"),
        ("last", "no"),
        ("1, 2", "yes"),
        ("1, 2", "no"),
    ]


def test_a_family_is_what_differs_in_lambda_with_the_baseline_of_its_grid():
    runs = [run(lam, batch_size=rows) for lam in (-1.0, 0.0, 1.0) for rows in (8, 32)]
    one = sweep(*runs, batch_size=[8, 32])
    found = {
        one.family_label(family): [setting.lam for setting in one.settings if one.belongs(setting, family)]
        for family in one.families
    }
    assert found == {"batch size 8": [-1, 0, 1], "batch size 32": [-1, 0, 1]}
    plain = sweep(*(run(0.0, batch_size=rows) for rows in (8, 32)), batch_size=[8, 32])
    assert [plain.family_label(family) for family in plain.families] == ["batch size 8", "batch size 32"]


def test_a_run_at_lambda_zero_is_the_baseline_whatever_its_regularizer():
    row = run(0.0)
    row.regularizer = COSREG
    assert sweep(row).settings == [Setting(Regularizer.NONE, 0.0, None, ())]
    assert sweep(row).settings[0].baseline


def test_what_is_read_of_tokens_alone_splits_the_runs_of_every_regularizer_that_sees_them():
    runs = [
        run(1.0, regularizer=method, points=points, **{field: value})
        for field, value in (("include_padding", True), ("include_padding", False))
        for method, points in ((ISTAR, None), (COSREG, None), (COSREG, "mean"), (ENTROPY, None), (ENTROPY, "tokens"))
    ]
    one = sweep(*runs, points=[None, "mean", "tokens"], include_padding=[True, False])
    assert {(setting.regularizer, *setting.values) for setting in one.settings} == {
        (ISTAR, "default", "yes"), (ISTAR, "default", "no"),
        (COSREG, "default", "yes"), (COSREG, "default", "no"),
        (COSREG, "mean", None),
        (ENTROPY, "default", None),
        (ENTROPY, "tokens", "yes"), (ENTROPY, "tokens", "no"),
    }  # fmt: skip


def test_sets_of_further_regularizers_are_told_by_their_names_and_lambda():
    grid = {"fixed_regularizers": [{}, {"istar": 0.5, "cosreg": 1.0}]}
    one = sweep(
        *(
            run(lam, regularizer=ENTROPY, fixed_regularizers=fixed)
            for lam in (0.0, 1.0)
            for fixed in grid["fixed_regularizers"]
        ),
        **grid,
    )
    assert labels(one) == [
        "λ = 0, extra penalties none",
        "λ = 0, extra penalties I-STAR 0.5; CosReg 1",
        "λ = 1, extra penalties none",
        "λ = 1, extra penalties I-STAR 0.5; CosReg 1",
    ]


def test_a_baseline_that_i_star_accompanies_is_on_the_lines_of_its_zeta_alone():
    runs = [
        run(lam, regularizer=COSREG, zeta=zeta, fixed_regularizers={"istar": 0.5})
        for lam in (0.0, 1.0)
        for zeta in (0.2, 0.8)
    ]
    one = sweep(*runs)
    found = {
        one.family_label(family): [setting.zeta for setting in one.settings if one.belongs(setting, family)]
        for family in one.families
    }
    assert found == {"ζ = 0.2": [0.2, 0.2], "ζ = 0.8": [0.8, 0.8]}
