import numpy as np
import pytest

from app.db.models import RunStatus
from app.results.conclusion.comparisons import Verdict
from isotropy.catalog import Regularizer
from tests.factories import reported
from tests.unit.conclusion.concluding import LAMBDAS, concluded, trend
from tests.unit.figures.rows import run


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
    sentences = concluded(
        *(run(lam, seed, scores[lam], 0.3 + 0.1 * lam) for lam in LAMBDAS for seed in range(2))
    ).findings
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
    conclusion = concluded(
        *trend((0.0, 1.0), 2), undefined, blind, run(3.0, status=RunStatus.RUNNING, performance=None)
    )
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


def test_conclusion_is_early_before_first_finished_run():
    assert concluded(run(performance=None, status=RunStatus.QUEUED)).is_early
    assert not concluded(run()).is_early


def test_unfinished_sweep_has_no_verdict():
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
    assert {row.verdict for row in waiting.evidence.comparisons} == {Verdict.WAITING}
    assert all(row.contrast.p is None for row in waiting.evidence.comparisons)
    assert (waiting.quote_advice, len(waiting.findings)) == ("", 1)


def test_interior_setting_above_both_ends_is_a_peak():
    conclusion = concluded(*noisy({-1.0: 0.6, -0.5: 0.7, 0.0: 0.8, 0.5: 0.7, 1.0: 0.6}))
    assert (conclusion.evidence.shape, conclusion.evidence.peak, conclusion.evidence.direction) == (
        "peak",
        "λ = 0",
        None,
    )
    assert any("peaks at λ = 0, which exceeds both" in row for row in conclusion.findings)


def test_fall_on_one_side_is_no_peak():
    conclusion = concluded(*noisy({-1.0: 0.5, -0.5: 0.8, 0.0: 0.8, 0.5: 0.8, 1.0: 0.8}))
    assert conclusion.evidence.peak is None
    assert conclusion.evidence.overall.decided


def test_performance_within_margin_is_flat():
    conclusion = concluded(*noisy(dict.fromkeys(LAMBDAS, 0.8), seeds=5, spread=0.002))
    assert conclusion.evidence.shape == "flat"
    assert "all intervals lie within ±0.02" in conclusion.findings[-1]


def test_overall_test_detects_settings_that_differ_from_each_other():
    conclusion = concluded(*noisy({-1.0: 0.77, -0.5: 0.775, 0.0: 0.8, 0.5: 0.825, 1.0: 0.83}, spread=0.012))
    assert conclusion.evidence.overall.decided
    assert {row.verdict for row in conclusion.evidence.comparisons} == {Verdict.NONE_SEEN}
    assert conclusion.findings[0].startswith("Settings differ in performance from each other: p = ")
    assert conclusion.findings[0].endswith("Performance rises with λ.")
    assert "cannot be tested" in concluded(*trend(seeds=1)).findings[0]


def test_peak_compares_settings_that_differ_only_in_lambda():
    scores = {(0.1, 0.0): 0.6, (0.1, 1.0): 0.6, (0.2, 0.0): 0.8, (0.2, 1.0): 0.8}
    rows = [run(lam, seed, score + 0.001 * (seed * (lam + 1) % 3), isotropy, learning_rate=rate)
            for ((rate, lam), score), isotropy in zip(scores.items(), (0.1, 0.4, 0.2, 0.3), strict=True)
            for seed in range(3)]  # fmt: skip
    assert concluded(*rows, learning_rate=[0.1, 0.2]).evidence.peak is None


def test_ends_with_different_seeds_have_no_peak():
    rows = noisy({-1.0: 0.6, 0.0: 0.8}) + [run(1.0, seed, 0.6 + 0.001 * seed, 0.4) for seed in (7, 8, 9)]
    assert concluded(*rows).evidence.peak is None


def test_two_seeds_have_no_overall_test():
    conclusion = concluded(*noisy({-1.0: 0.5, 0.0: 0.8, 1.0: 0.5, 2.0: 0.1}, seeds=2))
    assert (conclusion.evidence.overall.p, conclusion.evidence.peak) == (None, None)
    assert "cannot be tested yet" in conclusion.findings[0]
