import numpy as np
import pytest

from app.db.predictions import Predictions
from app.results.conclusion.comparisons import RowValues, RunFacts, compute_row_values
from app.results.conclusion.verdict_words import format_interval
from app.results.statistics.row_values import matthews_values
from isotropy.catalog import Regularizer
from tests.unit.conclusion.concluding import answered, concluded, trend
from tests.unit.figures.rows import run


def verdicts(conclusion):
    return {line.label: line.verdict for line in conclusion.verdict_rows}


def test_stored_predictions_add_rows_to_error():
    runs, facts = answered({0.0: 0.0, 1.0: 0.2, 2.0: 0.001, -1.0: -0.25})
    conclusion = concluded(*runs, facts=facts)
    assert verdicts(conclusion) == {"λ = −1": "worse", "λ = 1": "better", "λ = 2": "no difference seen"}
    assert {(row.method, row.n_rows, row.family_size) for row in conclusion.evidence.comparisons} == {
        ("seeds and rows", 300, 3)
    }
    assert conclusion.verdict_scope == [
        "Intervals over rows and seeds: a verdict holds for new seeds and new rows like these 300 validation rows."
    ]


def test_verdicts_without_predictions_hold_for_these_rows():
    conclusion = concluded(*trend(seeds=5))
    assert verdicts(conclusion)["λ = 1"] == "better"
    assert {row.method for row in conclusion.evidence.comparisons} == {"seeds"}
    assert "new seeds on these validation rows" in conclusion.verdict_scope[0]
    assert any("no predictions are stored" in row for row in conclusion.methods)


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_have_no_verdict(seeds):
    conclusion = concluded(*trend(seeds=seeds, slope=0.5))
    assert {*verdicts(conclusion).values()} == {"too few seeds"}
    assert "Do not quote" in conclusion.quote_advice


def test_no_difference_seen_has_interval():
    runs, facts = answered({0.0: 0.0, 1.0: 0.01})
    line = concluded(*runs, facts=facts).verdict_rows[0]
    assert line.verdict == "no difference seen"
    assert line.interval.startswith("[−")
    assert (line.pooled, line.p_adjusted) != ("–", "–")


def test_runs_scored_on_different_rows_are_paired_by_seed():
    runs, facts = answered({0.0: 0.0, 1.0: 0.2})
    moved = facts[runs[-1].id]
    facts[runs[-1].id] = RunFacts(RowValues(b"others", moved.row_values.values), "")
    conclusion = concluded(*runs, facts=facts)
    assert conclusion.evidence.comparisons[0].method == "seeds"
    assert any("scored on different rows" in row for row in conclusion.methods)


def test_rows_of_other_data_sets_are_ignored():
    runs, facts = answered({0.0: 0.0, 1.0: 0.2})
    other_facts = {
        f"other {number}": RunFacts(RowValues(b"others", np.zeros(5, np.float32)), "") for number in range(9)
    }
    assert concluded(*runs, facts=facts | other_facts).evidence == concluded(*runs, facts=facts).evidence


def test_baseline_of_another_model_is_not_compared():
    other_model = [run(1.0, seed, 0.8 + 0.01 * seed, model="tiny-gpt") for seed in range(3)]
    conclusion = concluded(*trend((0.0,)), *other_model)
    assert (conclusion.evidence.comparisons, len(conclusion.notes)) == ([], 1)


def test_quote_advice_has_interval_seeds_and_rows():
    runs, facts = answered({0.0: 0.0, 1.0: 0.2, 2.0: 0.0})
    advice = concluded(*runs, facts=facts).quote_advice
    for phrase in ("Quote the difference", "λ = 1: +0.2", "[0.", "95%, simultaneous over 2 comparisons", "3 seeds",
                 "300 validation rows"):  # fmt: skip
        assert phrase in advice


def test_each_family_has_its_matching_baseline():
    models = ["tiny-bert", "tiny-gpt"]
    runs = [run(lam, seed, start + slope * lam, 0.2 + lam, model=model)
            for model, start, slope in ((models[0], 0.9, -0.1), (models[1], 0.5, 0.1))
            for lam in (0.0, 1.0) for seed in (0, 1)]  # fmt: skip
    conclusion = concluded(*runs, model=models).evidence
    assert [row.estimate for row in conclusion.comparisons] == pytest.approx([-0.1, 0.1])


def test_zetas_share_baseline_and_methods_are_named():
    zetas = [run(1.0, seed, 0.7, 0.4, zeta=zeta) for zeta in (0.2, 0.8) for seed in (0, 1)]
    conclusion = concluded(*trend((0.0,), 2), *zetas, *trend((1.0,), 2, regularizer=Regularizer.COSREG)).evidence
    assert [row.label for row in conclusion.comparisons] == [
        "I-STAR, λ = 1, ζ = 0.2", "I-STAR, λ = 1, ζ = 0.8", "CosReg, λ = 1",
    ]  # fmt: skip


def test_incomparable_runs_have_a_note():
    assert "no run at λ = 0" in concluded(*trend((1.0,), 2)).notes[0]
    assert concluded(run(0.0, 1), run(1.0, 2)).notes == ["Not compared, because λ = 0 was run with other seeds: λ = 1."]
    plain = concluded(*trend((0.0,)))
    assert "All runs are plain training, so there is no λ to compare with λ = 0." in plain.methods


def test_runs_of_same_seed_are_averaged():
    conclusion = concluded(run(0.0, 0, 0.5), run(1.0, 0, 0.6), run(1.0, 0, 0.8))
    assert conclusion.evidence.comparisons[0].estimate == pytest.approx(0.2)


def always_right_or_constant(seeds):
    """Return runs of a setting that is always right and a constant one, scored by Matthews."""
    right = np.arange(200) % 2
    runs, facts = [], {}
    for lam, predicted in ((0.0, right), (1.0, np.zeros_like(right))):
        values = matthews_values(right, predicted).astype(np.float32)
        for seed in range(seeds):
            runs.append(run(lam, seed, float(values.mean()), 0.3 + lam))
            facts[runs[-1].id] = RunFacts(RowValues(b"validation", values), "")
    return runs, facts


def test_constant_difference_is_too_few_seeds():
    runs, facts = always_right_or_constant(seeds=3)
    line = concluded(*runs, facts=facts).verdict_rows[0]
    assert (line.difference, line.verdict, line.interval) == ("−1.00", "too few seeds", "–")


def test_identical_answers_have_no_interval():
    """An interval from 0 to 0 would mean that no new row can differ."""
    runs, facts = [], {}
    for lam in (0.0, 1.0):
        for seed in range(3):
            values = (np.arange(8) % (seed + 2) > 0).astype(np.float32)
            runs.append(run(lam, seed, float(values.mean()), 0.3 + lam))
            facts[runs[-1].id] = RunFacts(RowValues(b"validation", values), "")
    conclusion = concluded(*runs, facts=facts)
    line = conclusion.verdict_rows[0]
    assert (line.difference, line.verdict, line.interval, line.rows) == ("0", "no difference seen", "–", "8")
    assert conclusion.verdict_scope == [
        "Intervals over rows and seeds: a verdict holds for new seeds and new rows like these 8 validation rows."
    ]


def test_single_question_is_not_compared_by_row():
    score = np.array([0.5])
    answers = Predictions(np.array([0]), None, ("Paris",), exact_match=score, f1=score)
    assert compute_row_values(run(performance=0.5), answers, b"") == "there is only one row"


def test_interval_end_near_zero_is_not_rounded_to_zero():
    assert format_interval(0.0004, 0.22) == "[0.0004, 0.2200]"
    assert format_interval(-0.27, -0.11) == "[−0.27, −0.11]"
    assert format_interval(0.0, 0.0) == "[0.000, 0.000]"


def collapsed(lam, seeds=3, failed=3, score=0.5, **reasons):
    """Return the runs of a setting, the first ``failed`` of them collapsed, and their facts."""
    reasons = reasons or {"collapse_reason": "100% of the validation rows get the same prediction."}
    runs = [run(lam, seed, score + 0.001 * seed, 0.01) for seed in range(seeds)]
    return runs, {row.id: RunFacts(**reasons) for row in runs[:failed]}


@pytest.mark.parametrize(("seeds", "failed", "verdict"), [
    (3, 3, True), (3, 2, True), (3, 1, False), (5, 3, False), (5, 4, True), (1, 1, False), (2, 2, True),
])  # fmt: skip
def test_collapse_needs_two_thirds_and_two_seeds(seeds, failed, verdict):
    runs, facts = collapsed(2.0, seeds, failed)
    conclusion = concluded(*trend(seeds=seeds), *runs, facts=facts)
    assert (verdicts(conclusion)["λ = 2"] == "collapsed") is verdict
    assert conclusion.findings[0].startswith("Collapsed: λ = 2") is verdict


def test_collapsed_setting_is_not_tested():
    runs, facts = collapsed(2.0)
    with_collapsed, without_collapsed = concluded(*trend(), *runs, facts=facts), concluded(*trend())
    tested = [row for row in with_collapsed.evidence.comparisons if row.verdict != "collapsed"]
    assert tested == without_collapsed.evidence.comparisons
    line = with_collapsed.verdict_rows[-1]
    assert (line.verdict, line.decided, line.interval, line.p_adjusted) == ("collapsed", True, "–", "–")
    assert line.difference.startswith("−0.09")
    assert (len(with_collapsed.evidence.relation.lambdas), sum(with_collapsed.evidence.relation.lambdas)) == (1, 6)


def test_diverged_training_counts_as_collapsed():
    runs, facts = collapsed(2.0, diverged="Training diverged: its task loss ended at 186, after starting at 0.693.")
    conclusion = concluded(*trend(), *runs, facts=facts)
    assert "186" in conclusion.findings[0]
    assert any("3 runs diverged" in row for row in conclusion.cautions)


def test_collapsed_baseline_lists_settings_that_learned():
    runs, facts = collapsed(0.0)
    conclusion = concluded(*trend((-1.0, 1.0)), *runs, facts=facts)
    assert conclusion.findings[0] == (
        "The baseline collapsed, so no setting is compared with it. Learned: λ = −1; λ = 1."
    )
    assert (conclusion.evidence.comparisons, conclusion.notes) == ([], [])


def test_setting_at_trivial_level_is_tested_with_caution():
    runs = [run(2.0, seed, 0.5 + 0.01 * seed, 0.01) for seed in range(3)]
    facts = {row.id: RunFacts(learned_nothing="Performance 0.5 is not above the trivial predictor’s.") for row in runs}
    conclusion = concluded(*trend(), *runs, facts=facts)
    assert verdicts(conclusion)["λ = 2"] == "worse"
    assert "3 runs learned nothing: λ = 2, seed 0; λ = 2, seed 1; λ = 2, seed 2." in conclusion.cautions[0]


def test_equal_differences_have_no_interval():
    alike = [run(lam, seed, 0.7 + 0.1 * lam + 0.01 * seed, 0.3 + lam) for lam in (0.0, 1.0) for seed in range(3)]
    line = concluded(*alike).verdict_rows[0]
    assert (line.verdict, line.interval) == ("too few seeds", "–")
