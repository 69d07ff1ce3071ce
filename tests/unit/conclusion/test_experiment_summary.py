"""The first screen of an experiment: its cards, and its settings in a table."""

from dataclasses import replace

import numpy as np
import pytest

from app.db.models import RunStatus
from app.results.conclusion.comparisons import RunFacts
from app.results.conclusion.summary import Summary
from isotropy.catalog import Regularizer
from tests.unit.conclusion.concluding import LAMBDAS, answered, concluded, trend
from tests.unit.figures.rows import run

RELATED = "Is isotropy related to performance?"


def summary(*runs, facts=None):
    return Summary(concluded(*runs, facts=facts), "Accuracy")


def answers(result):
    return {card.question: card.answer for card in result.cards}


def test_cards_name_best_setting_and_relation():
    result = summary(*trend(seeds=5))
    assert answers(result) == {
        "Best on validation": "λ = 1",
        "Does λ matter?": "Yes: λ = 0.5; λ = 1 better, λ = −1; λ = −0.5 worse",
        RELATED: "Yes: more isotropic runs score higher",
    }
    assert result.cards[0].evidence.startswith("Accuracy 0.65")
    assert "from the baseline" in result.cards[0].evidence
    assert result.cards[1].evidence.startswith("Smallest adjusted p: ")
    assert result.cards[2].evidence.startswith("Rank correlation 1.00 (p = ")


def test_card_reports_negative_relation():
    assert answers(summary(*trend(seeds=5, slope=-0.05)))[RELATED] == "Yes: more isotropic runs score lower"


def test_relation_needs_settings_that_differ():
    noise = ((-0.03, 0.0, 0.03), (0.03, -0.03, 0.0), (0.0, 0.03, -0.03), (-0.03, 0.0, 0.03), (0.0, -0.03, 0.03))
    result = summary(
        *(
            run(lam, seed, 0.6 + 0.001 * lam + noise[index][seed], 0.3 + 0.1 * lam)
            for index, lam in enumerate(LAMBDAS)
            for seed in range(3)
        )
    )
    assert answers(result)["Does λ matter?"] == "No difference seen"
    assert answers(result)[RELATED] == "No clear relation"
    assert result.cards[2].evidence == (
        "Rank correlation 1.00 (p = 0.017) across 5 values of λ, but settings do not clearly differ."
    )


@pytest.mark.parametrize("seeds", [1, 2])
def test_best_setting_needs_a_verdict(seeds):
    result = summary(*trend(seeds=seeds))
    assert answers(result)["Best on validation"] == "No λ beats the baseline yet"
    assert answers(result)["Does λ matter?"] == "Too few seeds to tell"
    assert result.cards[1].evidence == f"{seeds} seed{'s' * (seeds > 1)} so far. A verdict takes 3 or more."
    assert {row.verdict for row in result.rows} == {"too few seeds", "baseline"}
    assert not any(row.best for row in result.rows)


def test_card_proposes_seeds_with_detectable_difference():
    runs, facts = answered({0.0: 0.0, 1.0: 0.001})
    result = summary(*runs, facts=facts)
    assert result.cards[0].answer == "No λ beats the baseline yet"
    assert result.cards[0].evidence.startswith("3 more seeds of 2 settings would show a difference of 0.")
    assert result.cards[1].answer == "No difference seen"
    assert result.cards[1].evidence.startswith("No clear difference between settings: p = ")


def test_cards_name_collapsed_settings_first():
    runs, facts = answered({0.0: 0.0, 1.0: 0.0, 2.0: -0.2})
    flat = {row_run.id: replace(facts[row_run.id], collapse_reason="100% get the same prediction.")
            for row_run in runs if row_run.lam == 2}  # fmt: skip
    result = summary(*runs, facts=facts | flat)
    assert result.cards[1].answer == "Yes: λ = 2 collapsed"
    assert [row.verdict for row in result.rows] == ["baseline", "no difference seen", "collapsed"]
    assert not any(row.best for row in result.rows)


def test_first_card_reports_collapsed_baseline():
    runs, facts = answered({0.0: -0.2, 1.0: 0.0})
    flat = {row_run.id: replace(facts[row_run.id], collapse_reason="100% get the same prediction.")
            for row_run in runs if row_run.lam == 0}  # fmt: skip
    card = summary(*runs, facts=facts | flat).cards[0]
    assert (card.answer, card.evidence) == ("The baseline collapsed", "Nothing is compared with it. Learned: λ = 1.")


def test_unfinished_runs_give_progress_card_only():
    result = summary(*trend(), run(2.0, 0, None, None, RunStatus.RUNNING))
    assert [card.answer for card in result.cards] == ["15 of 16 runs ended"]


def test_lambda_matters_if_settings_differ_from_each_other():
    noise = np.random.default_rng(0)
    scores = {-1.0: 0.77, -0.5: 0.775, 0.0: 0.8, 0.5: 0.825, 1.0: 0.83}
    result = summary(*(run(lam, seed, score + 0.012 * noise.normal(), 0.3 + lam / 10)
                      for lam, score in scores.items() for seed in range(3)))  # fmt: skip
    assert answers(result)["Best on validation"] == "No λ beats the baseline yet"
    assert answers(result)["Does λ matter?"] == "Yes: settings differ"


def test_equal_differences_leave_error_unknown():
    result = summary(*(run(lam, seed, 0.8 + 0.125 * lam + 0.01 * seed, 0.3) for lam in (0.0, 1.0) for seed in range(3)))
    assert result.cards[1].evidence == "All differ from the baseline by the same amount, so the error is unknown."


def test_identical_predictions_have_no_interval():
    runs, facts = answered({0.0: 0.0, 1.0: 0.0})
    same = facts[next(row_run.id for row_run in runs if row_run.config.lam == 0)]
    for row_run in runs:
        row_run.performance = float(same.row_values.values.mean())
    result = summary(*runs, facts=dict.fromkeys(facts, same))
    assert result.cards[0].evidence == "Every seed scores exactly as its baseline."
    assert "±" not in result.rows[1].difference
    assert not result.has_simultaneous_intervals


@pytest.mark.parametrize(
    ("lams", "answer"), [((0.0, 1.0), "Cannot be tested yet"), ((-1.0, 0.0, 1.0), "Too few λ to tell; 5 needed")]
)
def test_few_lambdas_cannot_show_relation(lams, answer):
    assert answers(summary(*trend(lams)))[RELATED] == answer


def test_plain_training_has_nothing_to_compare():
    result = summary(*(run(0.0, seed, 0.8, 0.3) for seed in range(3)))
    assert answers(result)["Does λ matter?"] == "Cannot be tested yet"
    assert [(row.label, row.difference, row.best) for row in result.rows] == [("Baseline (λ = 0)", "", False)]


def test_summary_without_results_is_empty():
    result = summary(run(0.0, 0, None, None))
    assert (result.cards, result.rows) == ([], [])


def test_rows_have_column_decimals_and_half_widths():
    methods = trend((1.0,), 3, regularizer=Regularizer.COSREG)
    first, second, third = summary(*trend((0.0, 1.0)), *methods).rows
    assert (first.label, second.label, third.label) == ("Baseline (λ = 0)", "I-STAR, λ = 1", "CosReg, λ = 1")
    assert (first.performance, first.isotropy, first.seeds) == ("0.599", "0.301", 3)
    assert " ± " in second.difference
    assert second.difference.startswith("+0.0")


def test_cards_agree_if_every_setting_is_worse():
    result = summary(*(run(lam, seed, 0.8 - 0.2 * abs(lam) + 0.01 * (seed * (lam + 2) % 3), 0.3)
                       for lam in (-1.0, 0.0, 1.0) for seed in range(3)))  # fmt: skip
    assert result.cards[0].evidence == "Against the baseline: λ = −1; λ = 1 worse."
    assert answers(result)["Does λ matter?"] == "Yes: λ = −1; λ = 1 worse"


def collapse(runs, facts, **options):
    collapsed_runs = [row for row in runs if all(getattr(row.config, name) == value for name, value in options.items())]
    return facts | {row.id: RunFacts(collapse_reason="100% get the same prediction.") for row in collapsed_runs}


def test_collapsed_settings_do_not_beat_baseline():
    runs, facts = answered({0.0: 0.0, 1.0: -0.2})
    card = summary(*runs, facts=collapse(runs, facts, lam=1.0)).cards[0]
    assert (card.answer, card.evidence) == (
        "No λ beats the baseline",
        "Every setting that it is compared with collapsed.",
    )


def test_collapsed_baseline_does_not_affect_second_baseline():
    rates = [0.1, 0.2]
    runs = [row for rate in rates for row in trend(learning_rate=rate)]
    conclusion = concluded(*runs, facts=collapse(runs, {}, learning_rate=0.1, lam=0.0), learning_rate=rates)
    result = Summary(conclusion, "Accuracy")
    assert not conclusion.evidence.baseline_collapsed
    assert result.cards[0].answer == "λ = 1, learning rate 0.2"
    assert "because the baseline collapsed: " in conclusion.notes[0]
    all_collapsed = concluded(*runs, facts=collapse(runs, {}, learning_rate=0.1), learning_rate=rates)
    assert "collapsed" not in Summary(all_collapsed, "Accuracy").cards[1].answer
