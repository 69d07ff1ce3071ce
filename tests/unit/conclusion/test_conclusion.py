from dataclasses import replace

import numpy as np
import pytest

from app.db.models import RunStatus
from app.results.conclusion.comparisons import RunFacts, Verdict
from app.results.conclusion.summary import Summary
from isotropy.catalog import Regularizer
from tests.factories import reported
from tests.unit.conclusion.concluding import LAMBDAS, answered, concluded, trend
from tests.unit.figures.rows import run

RELATED = "Is isotropy related to performance?"


def summary(*runs, facts=None):
    return Summary(concluded(*runs, facts=facts), "Accuracy")


def answers(result):
    return {card.question: card.answer for card in result.cards}


def test_relation_sentence_has_direction_coefficient_and_p():
    conclusion = concluded(*trend())
    assert conclusion.findings[-1] == (
        "The more isotropic a setting, the better it does: rank correlation 1.00 (p = 0.017) across 5 values of λ."
    )
    worse = concluded(*trend(slope=-0.05)).findings[-1]
    assert "the worse it does: rank correlation −1.00" in worse


@pytest.mark.parametrize("seeds", [1, 3, 5])
def test_seeds_do_not_lower_p_of_relation(seeds):
    assert concluded(*trend(seeds=seeds)).evidence.relation.p == pytest.approx(2 / 120)


@pytest.mark.parametrize(("lams", "smallest_p"), [((0.0, 1.0, 2.0), "0.33"), ((-1.0, 0.0, 1.0, 2.0), "0.083")])
def test_too_few_lambdas_state_smallest_p_and_number_needed(lams, smallest_p):
    sentences = concluded(*trend(lams, 5)).findings[-1]
    assert f"{len(lams)} values of λ are too few" in sentences
    assert f"cannot fall below {smallest_p}; it takes 5 values" in sentences


def test_missing_relation_is_called_unclear():
    scores = dict(zip(LAMBDAS, (0.70, 0.60, 0.65, 0.72, 0.61), strict=True))
    runs = [run(lam, seed, scores[lam], 0.3 + 0.1 * lam) for lam in LAMBDAS for seed in range(2)]
    sentences = concluded(*runs).findings
    assert sentences[-1].startswith("No clear relation between isotropy and performance: rank correlation")


def test_methods_and_models_are_blocks_of_relation():
    models = [row for model in ("tiny-bert", "tiny-gpt") for row in trend(model=model)]
    conclusion = concluded(*models, model=["tiny-bert", "tiny-gpt"]).evidence
    assert conclusion.relation.lambdas == (5, 5)
    cosreg = trend((1.0, 2.0, 3.0), regularizer=Regularizer.COSREG)
    two_methods = concluded(*trend(), *cosreg)
    assert two_methods.evidence.relation.lambdas == (5, 3)
    assert "across 5 + 3 values of λ" in two_methods.findings[-1]


def test_zetas_of_one_lambda_are_permuted_together():
    zetas = [row for zeta in (0.2, 0.8) for row in trend((-1.0, -0.5, 0.5, 1.0), zeta=zeta)]
    conclusion = concluded(*trend((0.0,)), *zetas)
    assert (conclusion.evidence.relation.lambdas, conclusion.evidence.relation.settings) == ((5,), 9)
    assert "across 5 values of λ, 9 settings" in conclusion.findings[-1]


def test_method_states_assumptions_of_relation():
    method = concluded(*trend()).methods[-1]
    for phrase in ("All 120 permutations of the values of λ", "all its seeds", "never across", "0.017",
                 "every order of the values of λ is equally likely", "agree by chance"):  # fmt: skip
        assert phrase in method
    logged = trend()
    for row in logged:
        row.config = reported(row)
    assert "We assume that runs of a script with the same seed" in concluded(*logged).methods[-1]


def test_duplicate_runs_count_once():
    once, twice = (concluded(*(trend() * repeats)) for repeats in (1, 2))
    assert twice.evidence.relation == once.evidence.relation
    assert twice.evidence.overall == once.evidence.overall
    assert twice.evidence.comparisons == once.evidence.comparisons
    assert twice.notes[0].startswith("A seed of several runs counts once, by their mean: λ = −1, seed 0; ")


def test_setting_with_pruned_run_is_left_out_with_note():
    runs = trend((-1.0, 0.0, 1.0))
    conclusion = concluded(*runs, run(1.0, 3, None, None, RunStatus.PRUNED))
    assert [row.label for row in conclusion.evidence.comparisons] == ["λ = −1"]
    assert "overstate them: λ = 1." in conclusion.notes[0]
    baseline = concluded(*runs, run(0.0, 3, None, None, RunStatus.PRUNED)).notes
    assert "has a performance that counts: λ = −1; λ = 1." in baseline[1]


def test_seeds_that_failed_are_counted_with_their_settings():
    failed = [run(lam, seed, None, None, RunStatus.FAILED) for lam, seed in ((1.0, 2), (1.0, 3), (2.0, 0))]
    notes = concluded(*trend((0.0, 1.0), 2), *failed).notes
    assert "because they failed" in notes[0]
    assert "3 runs of λ = 1; λ = 2" in notes[0]


def test_runs_without_a_value_are_left_out_and_counted():
    undefined = run(1.0, 8, performance=None, performance_reason="All predictions are equal.")
    blind = run(1.0, 9, isoscore_star=None)
    running = run(3.0, status=RunStatus.RUNNING, performance=None)
    conclusion = concluded(*trend((0.0, 1.0), 2), undefined, blind, running)
    assert "performance is undefined: 1 run. All predictions are equal." in conclusion.notes[0]
    assert conclusion.notes[1] == "Not in the relation, because IsoScore★ is undefined: 1 run."


def test_study_warns_that_p_values_are_inexact():
    phrase = "A study chose λ by the results before it"
    assert any(phrase in row for row in concluded(*trend(study={"over": True})).cautions)
    assert not any(phrase in row for row in concluded(*trend()).cautions)


def test_choice_on_reported_rows_has_caution():
    picked = "Choosing λ on these rows is optimistic. Report it on held-out rows."
    assert concluded(*trend((-1.0, 0.0, 1.0), 2)).cautions == [picked]
    best = trend((0.0, 1.0), 2, checkpoint="best", selection="validation")
    assert "chose their checkpoint" in concluded(*best).cautions[0]
    assert concluded(*trend((0.0, 1.0), 2, checkpoint="best", selection="held_out")).cautions == []


def test_experiments_that_share_settings_and_seeds_have_caution():
    first, second = trend(), trend(slope=-0.05)
    for row in second:
        row.experiment_id = "second"
    assert "seed are averaged" in concluded(*first, *second).cautions[0]


def test_unfinished_sweep_is_early_and_has_no_verdict():
    assert concluded(run(performance=None, status=RunStatus.QUEUED)).is_early
    assert not concluded(run()).is_early
    conclusion = concluded(run(1.0, performance=None, status=RunStatus.RUNNING), run(status=RunStatus.FAILED))
    assert conclusion.findings == ["1 run has not ended. Verdicts appear when all have."]
    assert conclusion.evidence.comparisons == []


def noisy(scores, seeds=3, spread=0.01):
    """Return runs that scatter around ``scores`` by λ; isotropy rises with λ."""
    noise = np.random.default_rng(0)
    return [
        run(lam, seed, score + spread * noise.normal(), 0.3 + 0.1 * lam + 0.001 * seed)
        for lam, score in scores.items()
        for seed in range(seeds)
    ]


def test_verdicts_wait_for_running_runs():
    runs = noisy({-1.0: 0.5, 0.0: 0.8, 1.0: 0.9})
    assert {row.verdict for row in concluded(*runs).evidence.comparisons} == {Verdict.WORSE, Verdict.BETTER}
    waiting = concluded(*runs, run(1.0, 3, None, None, RunStatus.RUNNING))
    assert {row.verdict for row in waiting.evidence.comparisons} == {Verdict.UNFINISHED}
    assert all(row.contrast.p is None for row in waiting.evidence.comparisons)
    assert (waiting.quote_advice, len(waiting.findings)) == ("", 1)


def test_interior_setting_above_both_ends_is_a_peak():
    conclusion = concluded(*noisy({-1.0: 0.6, -0.5: 0.7, 0.0: 0.8, 0.5: 0.7, 1.0: 0.6}))
    evidence = conclusion.evidence
    assert (evidence.shape, evidence.peak, evidence.direction) == ("peak", "λ = 0", None)
    assert any("peaks at λ = 0, above both" in row for row in conclusion.findings)
    runs = noisy({-1.0: 0.6, -0.5: 0.6, 0.0: 0.8, 0.5: 0.8, 1.0: 0.6})
    assert concluded(*runs).evidence.peak == "λ = 0 or λ = 0.5"
    for collapsed_lambdas, peak in ((1,), "λ = 0 or λ = 0.5"), ((-1, 1), None):
        facts = {row.id: RunFacts(diverged="Training diverged.") for row in runs if row.lam in collapsed_lambdas}
        assert concluded(*runs, facts=facts).evidence.peak == peak


def test_fall_on_one_side_and_ends_with_different_seeds_are_no_peak():
    conclusion = concluded(*noisy({-1.0: 0.5, -0.5: 0.8, 0.0: 0.8, 0.5: 0.8, 1.0: 0.8}))
    assert conclusion.evidence.peak is None
    assert conclusion.evidence.overall.decided
    rows = noisy({-1.0: 0.6, 0.0: 0.8}) + [run(1.0, seed, 0.6 + 0.001 * seed, 0.4) for seed in (7, 8, 9)]
    assert concluded(*rows).evidence.peak is None


def test_performance_within_margin_is_flat():
    conclusion = concluded(*noisy(dict.fromkeys(LAMBDAS, 0.8), seeds=5, spread=0.002))
    assert conclusion.evidence.shape == "flat"
    assert "all intervals lie within ±0.02" in conclusion.findings[-1]
    differing = concluded(*noisy({-1.0: 0.81, 0.0: 0.8, 1.0: 0.8}, seeds=5, spread=0.002))
    assert differing.evidence.shape == "unclear", "a setting with a verdict is not flat"


def test_overall_test_detects_settings_that_differ_from_each_other():
    conclusion = concluded(*noisy({-1.0: 0.77, -0.5: 0.775, 0.0: 0.8, 0.5: 0.825, 1.0: 0.83}, spread=0.012))
    assert conclusion.evidence.overall.decided
    assert {row.verdict for row in conclusion.evidence.comparisons} == {Verdict.UNDECIDED}
    assert conclusion.findings[0].startswith("Settings differ in performance from each other: p = ")
    assert conclusion.findings[0].endswith("Performance rises with λ.")
    cards = answers(Summary(conclusion, "Accuracy"))
    assert cards["Best on validation"] == "No λ beats the baseline yet"
    assert cards["Does λ matter?"] == "Yes: settings differ"
    assert "cannot be tested" in concluded(*trend(seeds=1)).findings[0]


def test_peak_compares_settings_that_differ_only_in_lambda():
    scores = {(0.1, 0.0): 0.6, (0.1, 1.0): 0.6, (0.2, 0.0): 0.8, (0.2, 1.0): 0.8}
    rows = [run(lam, seed, score + 0.001 * (seed * (lam + 1) % 3), isotropy, learning_rate=rate)
            for ((rate, lam), score), isotropy in zip(scores.items(), (0.1, 0.4, 0.2, 0.3), strict=True)
            for seed in range(3)]  # fmt: skip
    assert concluded(*rows, learning_rate=[0.1, 0.2]).evidence.peak is None


def test_two_seeds_have_no_overall_test():
    conclusion = concluded(*noisy({-1.0: 0.5, 0.0: 0.8, 1.0: 0.5, 2.0: 0.1}, seeds=2))
    assert (conclusion.evidence.overall.p, conclusion.evidence.peak) == (None, None)
    assert "cannot be tested yet" in conclusion.findings[0]


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
    result = summary(*runs, facts=collapse(runs, facts, lam=2.0))
    assert result.cards[1].answer == "Yes: λ = 2 collapsed"
    assert [row.verdict for row in result.rows] == ["baseline", "no difference seen", "collapsed"]
    assert not any(row.best for row in result.rows)


def test_first_card_reports_collapsed_baseline():
    runs, facts = answered({0.0: -0.2, 1.0: 0.0})
    card = summary(*runs, facts=collapse(runs, facts, lam=0.0)).cards[0]
    assert (card.answer, card.evidence) == ("The baseline collapsed", "Nothing is compared with it. Learned: λ = 1.")


def test_unfinished_runs_give_progress_card_only():
    result = summary(*trend(), run(2.0, 0, None, None, RunStatus.RUNNING))
    assert [card.answer for card in result.cards] == ["15 of 16 runs ended"]


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


def test_summary_without_results_or_comparisons_says_so():
    result = summary(run(0.0, 0, None, None))
    assert (result.cards, result.rows) == ([], [])
    result = summary(*(run(0.0, seed, 0.8, 0.3) for seed in range(3)))
    assert answers(result)["Does λ matter?"] == "Cannot be tested yet"
    assert [(row.label, row.difference, row.best) for row in result.rows] == [("Baseline (λ = 0)", "", False)]


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
    note = "100% get the same prediction."
    collapsed_runs = [row for row in runs if all(getattr(row.config, name) == value for name, value in options.items())]
    return facts | {row.id: replace(facts.get(row.id, RunFacts()), same_prediction_note=note) for row in collapsed_runs}


def test_collapsed_settings_do_not_beat_baseline():
    runs, facts = answered({0.0: 0.0, 1.0: -0.2})
    card = summary(*runs, facts=collapse(runs, facts, lam=1.0)).cards[0]
    assert card.answer == "No λ beats the baseline"
    assert card.evidence == "Every setting that it is compared with collapsed."


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
