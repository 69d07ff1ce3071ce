import numpy as np
import pytest

from app.core.evidence import look_level
from app.db.models import RunStatus
from app.db.predictions import Predictions
from app.results.conclusion.comparisons import RowValues, RunFacts, Verdict, compute_row_values
from app.results.conclusion.evidence import pool_sweeps
from app.results.conclusion.proposal import propose_seeds
from app.results.conclusion.summary import Summary
from app.results.conclusion.verdict_words import format_interval
from app.results.statistics.row_values import matthews_values
from isotropy.catalog import Regularizer
from tests.unit.conclusion.concluding import LAMBDAS, answered, concluded, trend
from tests.unit.figures.rows import run, sweep


def verdicts(conclusion):
    return {line.label: line.verdict for line in conclusion.verdict_rows}


def test_stored_predictions_add_rows_to_error():
    runs, facts = answered({0.0: 0.0, 1.0: 0.2, 2.0: 0.001, -1.0: -0.25})
    conclusion = concluded(*runs, facts=facts)
    assert verdicts(conclusion) == {"λ = −1": "worse", "λ = 1": "better", "λ = 2": "no difference seen"}
    compared = {(row.method, row.n_rows, row.family_size) for row in conclusion.evidence.comparisons}
    assert compared == {("seeds and rows", 300, 3)}
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
    foreign = {f"other {number}": RunFacts(RowValues(b"others", np.zeros(5, np.float32)), "") for number in range(9)}
    assert concluded(*runs, facts=facts | foreign).evidence == concluded(*runs, facts=facts).evidence


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


def scored(values_by_lam):
    """Return three runs of each setting, and their facts; a function of the seed gives the values of the rows."""
    runs, facts = [], {}
    for lam, values_of in values_by_lam.items():
        for seed in range(3):
            values = values_of(seed).astype(np.float32)
            runs.append(run(lam, seed, float(values.mean()), 0.3 + lam))
            facts[runs[-1].id] = RunFacts(RowValues(b"validation", values), "")
    return runs, facts


def test_constant_difference_is_too_few_seeds():
    right = np.arange(200) % 2
    always_right, constant = matthews_values(right, right), matthews_values(right, np.zeros_like(right))
    runs, facts = scored({0.0: lambda _: always_right, 1.0: lambda _: constant})
    line = concluded(*runs, facts=facts).verdict_rows[0]
    assert (line.difference, line.verdict, line.interval) == ("−1.00", "too few seeds", "–")
    alike = [run(lam, seed, 0.7 + 0.1 * lam + 0.01 * seed, 0.3 + lam) for lam in (0.0, 1.0) for seed in range(3)]
    line = concluded(*alike).verdict_rows[0]
    assert (line.verdict, line.interval) == ("too few seeds", "–")


def test_identical_answers_have_no_interval():
    """An interval from 0 to 0 would mean that no new row can differ."""
    runs, facts = scored(dict.fromkeys((0.0, 1.0), lambda seed: np.arange(8) % (seed + 2) > 0))
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
    reasons = reasons or {"same_prediction_note": "100% of the validation rows get the same prediction."}
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
    with_collapsed = concluded(*trend(), *runs, run(2.0, 0, 0.3, 0.01), facts=facts)  # seed 0 counts by its mean
    tested = [row for row in with_collapsed.evidence.comparisons if row.verdict != "collapsed"]
    assert tested == concluded(*trend()).evidence.comparisons
    line = with_collapsed.verdict_rows[-1]
    assert (line.verdict, line.decided, line.interval, line.p_adjusted) == ("collapsed", True, "–", "–")
    assert line.difference == "−0.131"
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


def in_rounds(*rounds):
    """Return the runs of all rounds; each round is one look."""
    for seed_round, rows in enumerate(rounds, 1):
        for row in rows:
            row.seed_round = seed_round
    return [row for rows in rounds for row in rows]


def noisy(seeds, gains=None, lams=LAMBDAS, noise=0.01):
    def performance(lam, seed):
        error = noise * float(np.random.default_rng([int(10 * lam) + 100, seed]).standard_normal())
        return 0.7 + (gains or {}).get(lam, 0.0) + error

    return [run(lam, seed, performance(lam, seed), 0.3 + 0.1 * lam) for lam in lams for seed in seeds]


def by_lam(conclusion):
    return {comparison.setting.lam: comparison for comparison in conclusion.evidence.comparisons}


def test_look_levels_sum_to_at_most_total_level():
    assert [look_level(look) for look in (1, 2, 3, 4)] == pytest.approx([0.04, 0.005, 0.0025, 0.00125])
    assert sum(map(look_level, range(1, 60))) <= 0.05


def test_second_look_has_wider_intervals():
    once = by_lam(concluded(*in_rounds(noisy(range(6)))))
    twice = by_lam(concluded(*in_rounds(noisy(range(3)), noisy(range(3, 6)))))
    for lam, comparison in twice.items():
        assert comparison.look == 2
        assert comparison.seeds == once[lam].seeds == [*range(6)]
        assert comparison.contrast.half_width > 1.2 * once[lam].contrast.half_width
        assert comparison.contrast.p >= once[lam].contrast.p


@pytest.mark.slow
def test_p_agrees_with_interval_at_every_look():
    for gain in np.linspace(0.01, 0.06, 12):
        gains = {1.0: gain, -1.0: -gain}
        for rounds in ([range(4)], [range(2), range(2, 4)]):
            for comparison in by_lam(concluded(*in_rounds(*(noisy(seeds, gains) for seeds in rounds)))).values():
                assert (comparison.contrast.p <= 0.05) == comparison.contrast.decided


def test_decision_of_earlier_look_stands():
    first = noisy(range(3), {1.0: 0.2})
    second = noisy(range(3, 6), lams=(0.0, 0.5))
    for row in second:  # the new seeds of the baseline do as well as λ = 1 did
        row.performance += 0.2
    comparisons = by_lam(concluded(*in_rounds(first, second)))
    assert (comparisons[1.0].verdict, comparisons[1.0].look, comparisons[1.0].seeds) == (Verdict.BETTER, 1, [0, 1, 2])
    assert (comparisons[0.5].look, comparisons[0.5].seeds) == (2, [*range(6)])


def test_running_round_has_no_verdict_or_proposal():
    running = [run(1.0, 3, None, None, RunStatus.RUNNING), *noisy([3], lams=(0.0,))]
    conclusion = concluded(*in_rounds(noisy(range(3), {1.0: 0.2}), running))
    assert {comparison.verdict for comparison in conclusion.evidence.comparisons} == {Verdict.UNFINISHED}
    assert conclusion.evidence.overall is None
    assert propose_seeds(conclusion.evidence, conclusion.sweep) is None
    assert [card.answer for card in Summary(conclusion, "Accuracy").cards] == ["16 of 17 runs ended"]


def test_relation_is_tested_only_at_first_look():
    falling = [run(lam, 3, 0.6 - lam, 0.3 + 0.1 * lam) for lam in LAMBDAS]
    first_rows = in_rounds(noisy(range(3)))
    first_look = concluded(*first_rows).evidence
    second_look = concluded(*in_rounds(first_rows, falling)).evidence
    assert second_look.relation == first_look.relation
    assert second_look.comparisons != first_look.comparisons
    first, with_added, second = (sweep(*rows) for rows in (first_rows, in_rounds(first_rows, falling), noisy([7])))
    assert pool_sweeps([with_added, second]) == pool_sweeps([first, second])


def test_relation_includes_resumed_runs():
    stopped, resumed = noisy(range(3), lams=LAMBDAS[:2]), noisy(range(3), lams=LAMBDAS[2:])
    once = concluded(*in_rounds([*stopped, *resumed])).evidence.relation
    assert concluded(*in_rounds(stopped, resumed)).evidence.relation == once


def test_seeds_are_proposed_for_undecided_settings_and_baseline():
    conclusion = concluded(*in_rounds(noisy(range(3), {1.0: 0.2})))
    proposal = propose_seeds(conclusion.evidence, conclusion.sweep)
    assert [setting.lam for setting in proposal.settings] == [-1.0, -0.5, 0.0, 0.5]
    assert (proposal.seeds, proposal.runs) == (3, 12)
    contrast = by_lam(conclusion)[0.5].contrast
    assert min(proposal.differences) > contrast.detectable_difference(2)
    card = Summary(conclusion, "Accuracy").cards[0]
    assert card.answer == "λ = 1"
    assert " Undecided settings: 3 more seeds of 4 settings would show a difference of 0.0" in card.evidence


@pytest.mark.parametrize(("seeds", "missing"), [(1, 2), (2, 1)])
def test_too_few_seeds_are_completed_before_first_look(seeds, missing):
    completed = concluded(*in_rounds(noisy(range(seeds)), noisy(range(seeds, 3), {1.0: 0.2})))
    assert (completed.evidence.looks, by_lam(completed)[1.0].look) == (1, 1)
    conclusion = concluded(*in_rounds(noisy(range(seeds))))
    proposal = propose_seeds(conclusion.evidence, conclusion.sweep)
    assert (proposal.seeds, proposal.differences, conclusion.evidence.looks) == (missing, None, 0)
    assert proposal.sentence.endswith(" of 5 settings would allow a verdict.")


def test_no_seeds_are_proposed_if_all_settings_are_worse():
    card = Summary(concluded(*noisy(range(3), {1.0: -0.3, -1.0: -0.3}, (-1.0, 0.0, 1.0))), "Accuracy").cards[0]
    assert (card.answer, card.proposal) == ("No λ beats the baseline yet", None)
    assert card.evidence == "Against the baseline: λ = −1; λ = 1 worse."


def test_conclusion_states_look_and_level():
    once = concluded(*in_rounds(noisy(range(3))))
    twice = concluded(*in_rounds(noisy(range(3), {1.0: 0.2}), noisy([3, 4], lams=(0.0, 0.5))))
    assert not any("Look" in sentence for sentence in once.verdict_scope)
    assert once.methods[-2].startswith("Each round of added seeds is one more look. Looks have levels of 0.04, 0.005, ")
    assert twice.verdict_scope[-1] == (
        "Look 2, at level 0.005, because seeds were added and tested again. What an earlier look decided stands."
    )
