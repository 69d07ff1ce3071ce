import pytest

from app.results.conclusion.summary import Summary
from isotropy.catalog import Regularizer
from tests.unit.conclusion.concluding import answered, concluded, trend
from tests.unit.figures.rows import run

RELATED = "Is isotropy related to performance?"


def summary(*runs, facts=None):
    return Summary(concluded(*runs, facts=facts), "Accuracy")


def answers(overview):
    return {card.question: card.answer for card in overview.cards}


def test_it_names_the_best_setting_and_says_whether_isotropy_goes_with_it():
    overview = summary(*trend(seeds=5))
    assert answers(overview) == {
        "Best on validation": "λ = 1",
        "Does λ matter?": "Yes: λ = 0.5; λ = 1 better, λ = −1; λ = −0.5 worse",
        RELATED: "Yes: more isotropic runs score higher",
    }
    assert overview.cards[0].evidence.startswith("Accuracy 0.65")
    assert "from the baseline" in overview.cards[0].evidence
    assert overview.cards[1].evidence.startswith("Smallest adjusted p: ")
    assert overview.cards[2].evidence.startswith("Rank correlation 1.00 (p = ")
    assert answers(summary(*trend(seeds=5, slope=-0.05)))[RELATED] == "Yes: more isotropic runs score lower"


def test_a_baseline_that_is_best_stands_beside_the_next_by_the_seeds_that_all_have():
    cards = summary(*(run(lam, seed, 0.8 - 0.1 * abs(lam), 0.3 + lam) for lam in (0.0, 1.0) for seed in (0, 1)))
    assert answers(cards)["Best on validation"] == "Baseline (λ = 0)"
    assert cards.cards[0].evidence == "Accuracy 0.800; next λ = 1, 0.700."
    lucky = [run(1.0, 0, 0.85, 0.4), run(0.0, 0, 0.9, 0.3), run(0.0, 1, 0.7, 0.3)]
    cards = summary(*lucky)
    assert answers(cards)["Best on validation"] == "Baseline (λ = 0)"
    assert cards.cards[0].evidence.endswith("over the 1 seed that all settings have.")


@pytest.mark.parametrize(
    ("scores", "answer", "evidence", "best"),
    [
        ((), "All settings tie", "Accuracy 0.800.", []),
        ((0.7,), "λ = −1; Baseline (λ = 0)", "Accuracy 0.800; next λ = 1, 0.700.", ["λ = −1", "Baseline (λ = 0)"]),
    ],
)
def test_of_settings_that_tie_none_is_called_the_best(scores, answer, evidence, best):
    values = zip((-1.0, 0.0, 1.0), (0.8, 0.8, *scores), strict=False)
    overview = summary(*(run(lam, seed, value, 0.3 + lam) for lam, value in values for seed in (0, 1)))
    assert (overview.cards[0].answer, overview.cards[0].evidence) == (answer, evidence)
    assert [row.label for row in overview.rows if row.best] == best


@pytest.mark.parametrize("seeds", [1, 2])
def test_few_seeds_decide_nothing(seeds):
    overview = summary(*trend(seeds=seeds))
    assert answers(overview)["Does λ matter?"] == "Too few seeds to tell"
    assert overview.cards[1].evidence == f"{seeds} seed{'s' * (seeds > 1)} so far. It takes 3 or more."
    assert {row.verdict for row in overview.rows} == {"too few seeds", "baseline"}


def test_of_enough_seeds_it_is_not_said_that_it_takes_as_many():
    cards = summary(*(run(lam, seed, 0.8 + 0.125 * lam + 0.01 * seed, 0.3) for lam in (0.0, 1.0) for seed in range(3)))
    sentence = "3 seeds so far. All differ from the baseline by the same amount, so the error is unknown."
    assert cards.cards[1].evidence == sentence


def test_no_difference_is_seen_where_intervals_include_0_or_runs_answer_alike():
    runs, facts = answered({0.0: 0.0, 1.0: 0.0})
    same = facts[next(item.id for item in runs if item.config.lam == 0)]
    overview = summary(*runs, facts=dict.fromkeys(facts, same))
    assert overview.cards[1][1:] == ("No difference seen", "Runs answer every row as their baselines do.")
    assert "±" not in overview.rows[1].difference
    assert not overview.has_simultaneous_intervals
    runs, facts = answered({0.0: 0.0, 1.0: 0.001})
    overview = summary(*runs, facts=facts)
    assert answers(overview)["Does λ matter?"] == "No difference seen"
    assert overview.cards[1].evidence.startswith("p = ")


@pytest.mark.parametrize(
    ("lams", "answer"), [((0.0, 1.0), "Cannot be tested yet"), ((-1.0, 0.0, 1.0), "Too few λ to tell; 5 needed")]
)
def test_few_values_of_lambda_show_no_relation(lams, answer):
    assert answers(summary(*trend(lams)))[RELATED] == answer


def test_plain_training_has_nothing_to_compare_and_without_a_result_nothing_is_shown():
    overview = summary(*(run(0.0, seed, 0.8, 0.3) for seed in range(3)))
    assert answers(overview)["Does λ matter?"] == "Cannot be tested yet"
    assert [(row.label, row.difference, row.best) for row in overview.rows] == [("Baseline (λ = 0)", "", False)]
    overview = summary(run(0.0, 0, None, None))
    assert (overview.cards, overview.rows) == ([], [])


def test_rows_have_the_decimals_of_their_column_and_differences_their_half_width():
    methods = trend((1.0,), 3, regularizer=Regularizer.COSREG)
    first, second, third = summary(*trend((0.0, 1.0)), *methods).rows
    assert (first.label, second.label, third.label) == ("Baseline (λ = 0)", "I-STAR, λ = 1", "CosReg, λ = 1")
    assert (first.performance, first.isotropy, first.seeds) == ("0.599", "0.301", 3)
    assert " ± " in second.difference
    assert second.difference.startswith("+0.0")
