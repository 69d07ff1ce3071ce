import pytest

from app.figures.palette import METHODS, of_lambda
from app.results.figures import legend
from app.results.figures.legend import DASHES
from isotropy.catalog import Regularizer
from tests.unit.figures.rows import run, sweep

ISTAR, COSREG = Regularizer.ISTAR, Regularizer.COSREG


def test_one_regularizer_is_coloured_by_lambda_and_several_by_method():
    alone = sweep(run(0.0), run(1.0))
    assert [legend.colour(alone, setting) for setting in alone.settings] == [of_lambda(0), of_lambda(1)]
    several = sweep(run(0.0), run(-1.0), run(1.0), run(1.0, regularizer=COSREG))
    assert [legend.colour(several, setting) for setting in several.settings] == [
        METHODS[ISTAR],
        of_lambda(0),
        METHODS[ISTAR],
        METHODS[COSREG],
    ]
    assert [legend.dash(several, setting) for setting in several.settings] == [
        DASHES[0],
        DASHES[0],
        DASHES[1],
        DASHES[0],
    ]
    assert [legend.symbol(several, setting.family) for setting in several.settings] == [
        "circle",
        "circle",
        "circle",
        "square",
    ]


def test_lambdas_of_one_sign_whose_colours_are_nearly_one_are_told_apart_by_dashes():
    one = sweep(*(run(lam) for lam in (-3.0, -1.0, 0.0, 1.0, 3.0)))
    assert {setting.lam: legend.dash(one, setting) for setting in one.settings} == {
        -3.0: DASHES[1], -1.0: DASHES[0], 0.0: DASHES[0], 1.0: DASHES[0], 3.0: DASHES[1],
    }  # fmt: skip


@pytest.mark.parametrize(("n", "names"), [(8, [f"λ = 1, epochs {i}" for i in range(1, 9)]), (9, ["λ = 1"])])
def test_many_lines_share_an_entry_of_the_legend_by_colour(n, names):
    one = sweep(*(run(1.0, epochs=i) for i in range(1, n + 1)), epochs=list(range(1, n + 1)))
    entries = [legend.entry(one, setting, one.settings) for setting in one.settings]
    assert [entry["name"] for entry in entries if entry.get("showlegend", True)] == names


def test_entries_too_long_for_the_legend_lose_the_settings_that_do_not_tell_them_apart():
    shared = {"batch_size": [8, 16], "learning_rate": [1e-4, 1e-3], "max_length": [64, 128], "max_steps": [5, 120]}
    alike = {"learning_rate": 1e-3, "max_length": 128}
    one = sweep(run(1.0, batch_size=8, max_steps=5, learning_rate=1e-4, max_length=64, epochs=None),
                run(1.0, batch_size=16, max_steps=5, epochs=None, **alike),
                run(1.0, batch_size=16, max_steps=120, epochs=None, **alike), **shared)  # fmt: skip
    assert max(len(one.family_label(family)) for family in one.families) > legend.MAX_NAME_LENGTH
    assert legend.legend_names(one, one.families, one.family_label) == [
        "batch size 8, max steps 5", "batch size 16, max steps 5", "batch size 16, max steps 120",
    ]  # fmt: skip
    assert [legend.entry(one, setting, one.settings)["name"] for setting in one.settings] == [
        "λ = 1, batch size 8, max steps 5", "λ = 1, batch size 16, max steps 5", "λ = 1, batch size 16, max steps 120",
    ]  # fmt: skip


def test_entries_that_are_short_enough_keep_all_and_no_two_that_are_cut_are_alike():
    short = sweep(*(run(1.0, batch_size=rows) for rows in (8, 32)), batch_size=[8, 32])
    assert legend.legend_names(short, short.families, short.family_label) == ["batch size 8", "batch size 32"]
    models = [f"{'one-and-the-same-beginning-' * 2}{i}-one-and-the-same-end-of-it" for i in (1, 2)]
    long = sweep(*(run(1.0, model=model) for model in models), model=models)
    assert len(set(legend.legend_names(long, long.families, long.family_label))) == 2


def test_a_pointer_is_told_the_whole_setting_in_lines_and_nothing_of_it_is_markup():
    names = [f"{'settings ' * 12}{end}" for end in ("<one>", "two")]
    long = sweep(*(run(1.0, model=name) for name in names), model=names)
    first, second = legend.hover_label(long, long.settings[0]).split("<br>")
    assert f"{first} {second}" == f"λ = 1, {'settings ' * 12}&lt;one&gt;"
    endless = sweep(*(run(1.0, model=name * 9) for name in names), model=[name * 9 for name in names])
    assert legend.hover_label(endless, endless.settings[0]).count("<br>") == 5
    assert legend.hover_label(endless, endless.settings[0]).endswith("…")


def test_plain_training_alone_has_a_symbol_for_each_setting():
    plain = sweep(*(run(0.0, batch_size=rows) for rows in (8, 32)), batch_size=[8, 32])
    assert [legend.symbol(plain, setting.family) for setting in plain.settings] == ["circle", "square"]
