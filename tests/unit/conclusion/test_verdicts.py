import numpy as np
import pytest

from app.db.models import RunStatus
from app.db.predictions import Predictions
from app.results.conclusion.comparisons import RowValues, RunFacts, row_values
from app.results.conclusion.verdict_words import format_interval
from app.results.statistics.row_values import matthews_values
from isotropy.catalog import Regularizer
from tests.unit.conclusion.concluding import answered, concluded, trend
from tests.unit.figures.rows import run


def verdicts(conclusion):
    return {line.label: line.verdict for line in conclusion.verdict_rows}


def test_with_predictions_rows_are_part_of_the_error_and_the_population_says_so():
    runs, facts = answered({0.0: 0.0, 1.0: 0.2, 2.0: 0.001, -1.0: -0.25})
    conclusion = concluded(*runs, facts=facts)
    assert verdicts(conclusion) == {"λ = −1": "worse", "λ = 1": "better", "λ = 2": "no difference seen"}
    differences = conclusion.evidence.comparisons
    compared = {(difference.method, difference.rows, difference.judgment.comparisons) for difference in differences}
    assert compared == {("seeds and rows", 300, 3)}
    sentence = (
        "Intervals over rows and seeds: a verdict holds for new seeds and new rows like these 300 validation rows."
    )
    assert conclusion.verdict_scope == [sentence]


def test_without_predictions_it_is_the_paired_t_test_on_these_validation_rows():
    conclusion = concluded(*trend(seeds=5))
    assert verdicts(conclusion)["λ = 1"] == "better"
    assert {comparison.method for comparison in conclusion.evidence.comparisons} == {"seeds"}
    assert "new seeds on these validation rows" in conclusion.verdict_scope[0]
    assert any("no predictions are stored" in method for method in conclusion.methods)


def test_the_papers_design_can_be_decided_where_the_exact_test_cannot():
    drops = {0.0: 0.0, -5.0: -0.19, -3.0: -0.013, -1.0: 0.0, 1.0: 0.002, 3.0: 0.0, 5.0: 0.001}
    random = np.random.default_rng(0)
    conclusion = concluded(*(run(lam, seed, 0.8 + gain + 0.01 * random.normal(), 0.3 + lam / 100)
                        for lam, gain in drops.items() for seed in range(5)))  # fmt: skip
    assert verdicts(conclusion)["λ = −5"] == "worse"
    comparison = conclusion.evidence.comparisons[0]
    assert (comparison.p_holm > 0.05, comparison.flip_seeds_needed) == (True, 8)
    assert any("needs 8 seeds" in method and "never decides" in method for method in conclusion.methods)


@pytest.mark.parametrize("seeds", [1, 2])
def test_below_three_seeds_it_is_always_too_few_seeds(seeds):
    conclusion = concluded(*trend(seeds=seeds, slope=0.5))
    assert {*verdicts(conclusion).values()} == {"too few seeds"}
    assert {line.to_decide for line in conclusion.verdict_rows} == {"3 seeds or more"}
    assert "Do not quote" in conclusion.quote_advice


def test_one_seed_tells_of_these_two_runs_on_new_rows():
    runs, facts = answered({0.0: 0.0, 1.0: 0.2}, seeds=1)
    conclusion = concluded(*runs, facts=facts)
    only = conclusion.evidence.comparisons[0].rows_only
    won = int((facts[runs[1].id].rows.values > facts[runs[0].id].rows.values).sum())
    lost = int((facts[runs[1].id].rows.values < facts[runs[0].id].rows.values).sum())
    from scipy.stats import binomtest  # noqa: PLC0415

    assert only.p == pytest.approx(binomtest(won, won + lost).pvalue)
    assert only.mcnemar
    assert "these two runs on new rows" in conclusion.verdict_rows[0].interval
    assert conclusion.verdict_rows[0].verdict == "too few seeds"


def test_no_difference_seen_has_its_interval_and_the_number_to_quote_its_seeds_and_rows():
    runs, facts = answered({0.0: 0.0, 1.0: 0.01})
    line = concluded(*runs, facts=facts).verdict_rows[0]
    assert line.verdict == "no difference seen"
    assert line.interval.startswith("[−")
    assert line.to_decide.startswith("about ")
    runs, facts = answered({0.0: 0.0, 1.0: 0.2, 2.0: 0.0})
    quotable = concluded(*runs, facts=facts).quote_advice
    for part in ("Quote the difference", "λ = 1: +0.2", "[0.", "95%, simultaneous over 2 comparisons", "3 seeds",
                 "300 validation rows", "Not p of the exact test"):  # fmt: skip
        assert part in quotable


def test_seeds_that_all_differ_alike_have_the_error_of_rows_and_never_p_0():
    runs, facts = answered({0.0: 0.0, 1.0: 0.02}, seeds=1)
    values = {item.lam: facts[item.id].rows.values for item in runs}
    alike = [run(lam, seed, float(values[lam].mean()), 0.3 + lam) for lam in values for seed in range(3)]
    known_facts = {item.id: RunFacts(RowValues(b"", values[item.lam]), "", has_trivial_score=True) for item in alike}
    judgment = concluded(*alike, facts=known_facts).evidence.comparisons[0].judgment
    d = (values[1.0] - values[0.0]).astype(float)
    assert judgment.difference.error == pytest.approx(d.std(ddof=1) / np.sqrt(len(d)))
    without = concluded(*alike, facts={item.id: RunFacts(has_trivial_score=True) for item in alike})
    assert without.verdict_rows[0].verdict == "too few seeds"
    assert "stored predictions" in without.verdict_rows[0].to_decide


def test_runs_scored_on_other_rows_are_paired_by_seed_alone_and_it_is_told():
    runs, facts = answered({0.0: 0.0, 1.0: 0.2})
    moved = facts[runs[-1].id]
    facts[runs[-1].id] = RunFacts(RowValues(b"others", moved.rows.values), "", has_trivial_score=True)
    conclusion = concluded(*runs, facts=facts)
    assert conclusion.evidence.comparisons[0].method == "seeds"
    assert any("scored on different rows" in method for method in conclusion.methods)


def test_each_family_has_the_baseline_that_is_alike_in_all_else_and_zetas_share_it():
    models = ["tiny-bert", "tiny-gpt"]
    runs = [run(lam, seed, start + slope * lam, 0.2 + lam, model=model)
            for model, start, slope in ((models[0], 0.9, -0.1), (models[1], 0.5, 0.1))
            for lam in (0.0, 1.0) for seed in (0, 1)]  # fmt: skip
    evidence = concluded(*runs, model=models).evidence
    assert [comparison.estimate for comparison in evidence.comparisons] == pytest.approx([-0.1, 0.1])
    zetas = [run(1.0, seed, 0.7, 0.4, zeta=zeta) for zeta in (0.2, 0.8) for seed in (0, 1)]
    evidence = concluded(*trend((0.0,), 2), *zetas, *trend((1.0,), 2, regularizer=Regularizer.COSREG)).evidence
    assert [comparison.label for comparison in evidence.comparisons] == [
        "I-STAR, λ = 1, ζ = 0.2", "I-STAR, λ = 1, ζ = 0.8", "CosReg, λ = 1",
    ]  # fmt: skip


def test_what_cannot_be_compared_is_told_and_two_runs_of_a_seed_count_by_their_mean():
    assert "no run at λ = 0" in concluded(*trend((1.0,), 2)).notes[0]
    assert concluded(run(0.0, 1), run(1.0, 2)).notes == ["Not compared, because λ = 0 was run with other seeds: λ = 1."]
    plain = concluded(*trend((0.0,)))
    assert "All runs are plain training, so there is no λ to compare with λ = 0." in plain.methods
    conclusion = concluded(run(0.0, 0, 0.5), run(1.0, 0, 0.6), run(1.0, 0, 0.8))
    assert conclusion.evidence.comparisons[0].estimate == pytest.approx(0.2)


def failed(lam, **facts):
    runs = [run(lam, seed, 0.5, 0.01) for seed in range(3)]
    return runs, {item.id: RunFacts(has_trivial_score=True, **facts) for item in runs}


def test_runs_that_learned_nothing_are_named_and_all_is_told_without_them():
    flat, facts = failed(2.0, learned_nothing="Every validation row was predicted as “1”.")
    conclusion = concluded(*trend(slope=0.05), *flat, facts=facts)
    caution = next(sentence for sentence in conclusion.cautions if "learned nothing" in sentence)
    assert "3 runs learned nothing: λ = 2, seed 0; λ = 2, seed 1; λ = 2, seed 2." in caution
    assert "predicted as “1”" in caution
    with_them, without = conclusion.evidence, conclusion.evidence.without_flagged
    assert (with_them.relation.lambdas, without.relation.lambdas) == ((6,), (5,))
    findings = " ".join(conclusion.findings)
    assert "Without 3 runs that learned nothing or diverged: The more isotropic" in findings
    assert without.effect.settings == 5
    assert f"5 settings, {without.effect.seeds} seeds." in findings
    assert "λ = 2:" in findings
    assert "becomes no runs left to compare" in findings


def test_the_number_to_quote_is_not_of_a_setting_that_learned_nothing():
    gains = {0.0: (0.80, 0.81, 0.82), 1.0: (0.83, 0.87, 0.85)}
    learned = [run(lam, seed, score) for lam, scores in gains.items() for seed, score in enumerate(scores)]
    flat = [run(2.0, seed, 0.5) for seed in range(3)]
    facts = {item.id: RunFacts(learned_nothing="All predicted as “1”.", has_trivial_score=True) for item in flat}
    assert "λ = 1: " in concluded(*learned, *flat, facts=facts).quote_advice
    known_facts = {item.id: RunFacts(has_trivial_score=True) for item in flat}
    assert "λ = 2: " in concluded(*learned, *flat, facts=known_facts).quote_advice


def test_constants_of_different_classes_and_runs_that_diverged_are_found():
    runs = [run(2.0, seed, score, 0.01) for seed, score in enumerate((0.47, 0.53, 0.47))]
    facts = {item.id: RunFacts(learned_nothing="All predicted as one class.", has_trivial_score=True) for item in runs}
    evidence = concluded(*trend(), *runs, facts=facts).evidence
    assert len(evidence.learned_nothing) == 3
    flat, facts = failed(2.0, diverged="Training diverged: its task loss ended at 186, after starting at 0.693.")
    evidence = concluded(*trend(), *flat, facts=facts)
    assert any("3 runs diverged" in caution and "186" in caution for caution in evidence.cautions)
    assert evidence.evidence.without_flagged is not None


def test_where_nothing_else_is_known_equal_scores_of_all_seeds_are_taken_for_failed():
    flat, _ = failed(2.0)
    conclusion = concluded(*trend(), *flat).evidence
    assert conclusion.learned_nothing[0].label == "λ = 2, seed 0"
    solved = concluded(*(run(-1.0, seed, 1.0) for seed in range(3)), run(2.0, 0, 0.5), *trend((0.0, 1.0)))
    assert solved.evidence.learned_nothing == []
    failed_runs, facts = failed(2.0)
    assert concluded(*trend(), *failed_runs, facts=facts).evidence.learned_nothing == []
    chance = [run(2.0, seed, 0.63) for seed in range(3)]
    assert concluded(*trend(), *chance).evidence.learned_nothing == []
    pair = [run(2.0, seed, 0.5) for seed in range(2)]
    assert concluded(*trend(seeds=2), *pair).evidence.learned_nothing == []
    worst = concluded(*trend(seeds=2), *pair, run(3.0, 0, 0.5), run(3.0, 1, 0.56)).evidence.learned_nothing
    assert [entry.label for entry in worst] == ["λ = 2, seed 0", "λ = 2, seed 1"]
    conclusion = concluded(*(run(lam, seed, 0.5) for lam in (0.0, 1.0) for seed in (0, 1)))
    assert (len(conclusion.evidence.learned_nothing), conclusion.evidence.without_flagged) == (4, None)
    assert run(status=RunStatus.FAILED).status is RunStatus.FAILED


def always_right_or_constant(seeds):
    """One setting answers every row rightly and the other gives one answer: by Matthews no row stands out."""
    right = np.arange(200) % 2
    runs, facts = [], {}
    for lam, answers in ((0.0, right), (1.0, np.zeros_like(right))):
        values = matthews_values(right, answers).astype(np.float32)
        for seed in range(seeds):
            runs.append(run(lam, seed, float(values.mean()), 0.3 + lam))
            facts[runs[-1].id] = RunFacts(RowValues(b"validation", values), "", has_trivial_score=True)
    return runs, facts


def test_differences_that_are_1_in_every_row_and_seed_are_not_no_difference():
    runs, facts = always_right_or_constant(seeds=3)
    line = concluded(*runs, facts=facts).verdict_rows[0]
    assert (line.difference, line.verdict, line.interval) == ("−1.00", "too few seeds", "–")
    assert line.to_decide == "rows that do not all differ by the same amount"
    runs, facts = always_right_or_constant(seeds=1)
    assert concluded(*runs, facts=facts).evidence.comparisons[0].rows_only is None


def test_rows_that_no_run_answers_differently_have_no_interval():
    """An interval from 0 to 0 would say that no other row can differ."""
    runs, facts = [], {}
    for lam in (0.0, 1.0):
        for seed in range(3):
            values = (np.arange(8) % (seed + 2) > 0).astype(np.float32)
            runs.append(run(lam, seed, float(values.mean()), 0.3 + lam))
            facts[runs[-1].id] = RunFacts(RowValues(b"validation", values), "", has_trivial_score=True)
    conclusion = concluded(*runs, facts=facts)
    line = conclusion.verdict_rows[0]
    assert (line.difference, line.verdict, line.interval, line.rows) == ("0", "no difference seen", "–", "8")
    assert "new seeds and new rows like these 8 validation rows." in conclusion.verdict_scope[0]


def test_a_single_question_is_not_compared_by_row_and_no_end_beside_zero_shown_as_zero():
    score = np.array([0.5])
    answers = Predictions(np.array([0]), None, ("Paris",), exact_match=score, f1=score)
    assert row_values(run(performance=0.5), answers, b"") == "there is only one row"
    assert format_interval(0.0004, 0.22) == "[0.0004, 0.2200]"
    assert format_interval(-0.27, -0.11) == "[−0.27, −0.11]"
    assert format_interval(0.0, 0.0) == "[0.000, 0.000]"
