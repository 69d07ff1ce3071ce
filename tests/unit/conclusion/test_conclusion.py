import numpy as np
import pytest

from app.db.models import RunStatus
from app.results.statistics.verdict import Verdict
from isotropy.catalog import Regularizer
from tests.factories import reported
from tests.unit.conclusion.concluding import LAMBDAS, concluded, trend
from tests.unit.figures.rows import run


def test_a_relation_is_told_with_direction_coefficient_p_and_values_of_lambda_or_as_no_clear_one():
    conclusion = concluded(*trend())
    sentence = (
        "The more isotropic a setting, the better it does: rank correlation 1.00 (p = 0.017) across 5 values of λ."
    )
    assert conclusion.findings[0] == sentence
    worse = concluded(*trend(slope=-0.05)).findings[0]
    assert "the worse it does: rank correlation −1.00" in worse
    scores = dict(zip(LAMBDAS, (0.70, 0.60, 0.65, 0.72, 0.61), strict=True))
    findings = concluded(
        *(run(lam, seed, scores[lam], 0.3 + 0.1 * lam) for lam in LAMBDAS for seed in range(2))
    ).findings
    assert findings[0].startswith("No clear relation between isotropy and performance: rank correlation")


@pytest.mark.parametrize("seeds", [1, 3, 5])
def test_seeds_never_make_a_relation_surer(seeds):
    assert concluded(*trend(seeds=seeds)).evidence.relation.p == pytest.approx(2 / 120)


@pytest.mark.parametrize(("lams", "smallest_p"), [((0.0, 1.0, 2.0), "0.33"), ((-1.0, 0.0, 1.0, 2.0), "0.083")])
def test_too_few_values_of_lambda_are_told_with_the_floor_and_how_many_it_takes(lams, smallest_p):
    finding = concluded(*trend(lams, 5)).findings[0]
    assert f"{len(lams)} values of λ are too few" in finding
    assert f"cannot fall below {smallest_p}; it takes 5 values" in finding


def peaked(below=0.1, above=0.12, seeds=3):
    drop = {lam: (below if lam < 0 else above) * abs(lam) for lam in LAMBDAS}
    return [
        run(lam, seed, 0.8 - drop[lam] + 0.001 * ((seed * 7 + int(lam * 10)) % 5), 0.3 + 0.1 * lam)
        for lam in LAMBDAS
        for seed in range(seeds)
    ]


def test_a_curve_that_falls_on_both_sides_of_zero_peaks_there_and_no_direction_is_told():
    conclusion = concluded(*peaked())
    assert conclusion.findings[0].startswith("Performance peaks at λ = 0 and is lower on both sides")
    assert "neither more nor less" in conclusion.findings[0]
    assert (conclusion.evidence.direction, len(conclusion.evidence.peaks)) == (None, 1)
    runs = peaked()
    for item in runs:
        item.isoscore_star = 0.5 - 0.1 * abs(item.lam) - 0.01 * item.lam
    conclusion = concluded(*runs)
    assert conclusion.evidence.relation.p <= 0.05
    assert "peaks at λ = 0" in conclusion.findings[0]
    assert "the better" not in conclusion.findings[0]


def test_differences_that_chance_can_make_are_no_peak():
    scores = {-1.0: (0.7, 0.75, 0.72), 0.0: (0.74, 0.73, 0.71), 1.0: (0.75, 0.7, 0.71)}
    result = concluded(*(run(lam, seed, y, 0.3 + lam / 10) for lam, ys in scores.items() for seed, y in enumerate(ys)))
    assert max(result.evidence.curves[0].gains.values()) < 0
    assert result.evidence.peaks == []
    assert not any("peaks" in finding for finding in result.findings)


def test_one_of_two_methods_that_peaks_is_named_and_the_relation_is_told_all_the_same():
    rising = [run(lam, seed, 0.9 + 0.1 * lam + 0.001 * (seed % 2), 0.5 + 0.1 * lam, regularizer=Regularizer.COSREG)
              for lam in (-1.0, -0.5, 0.5, 1.0, 2.0) for seed in range(3)]  # fmt: skip
    conclusion = concluded(*peaked(), *rising)
    assert [curve.regularizer for curve in conclusion.evidence.peaks] == [Regularizer.ISTAR]
    assert not conclusion.evidence.peaks_at_zero
    assert any("peaks at λ = 0" in finding and "for I-STAR" in finding for finding in conclusion.findings[1:])


def two_models(effect, seeds=4):
    """Performance peaks for one model only; of the other λ = 1 is a little better, or the same but for noise."""
    noise = np.random.default_rng(0)
    drop = {"tiny-bert": 0.2, "tiny-gpt": 0.0}
    return [
        run(lam, seed, 0.8 - drop[model] * abs(lam) + effect * lam * (model == "tiny-gpt") + 0.01 * noise.normal(),
            0.3 + 0.1 * lam + 0.001 * seed, model=model)
        for model in drop for lam in (-1.0, 0.0, 1.0) for seed in range(seeds)
    ]  # fmt: skip


def test_a_peak_of_one_model_is_none_of_another():
    conclusion = concluded(*two_models(0.01), model=["tiny-bert", "tiny-gpt"])
    gains = {curve.group.model: curve.gains for curve in conclusion.evidence.curves}
    assert gains["tiny-gpt"][1.0] > 0
    assert [curve.group.model for curve in conclusion.evidence.peaks] == ["tiny-bert"]
    assert not conclusion.evidence.peaks_at_zero
    assert "for I-STAR (tiny-bert)." in " ".join(conclusion.findings)
    runs = two_models(0.0)
    for item in runs:
        if item.config.model == "tiny-gpt":
            item.performance -= 0.004 * abs(item.lam)
    conclusion = concluded(*runs, model=["tiny-bert", "tiny-gpt"]).evidence
    flat = next(curve for curve in conclusion.curves if curve.group.model == "tiny-gpt")
    assert conclusion.effect.p <= 0.05
    assert max(flat.gains.values()) < 0
    assert flat not in conclusion.peaks


def test_where_one_side_alone_falls_off_there_is_no_peak():
    fallen = {-1.0: 0.3, -0.5: 0.0, 0.0: 0.0, 0.5: 0.004, 1.0: 0.003}
    noise = np.random.default_rng(0)
    conclusion = concluded(*(
        run(lam, seed, 0.8 - drop + 0.006 * noise.normal(), 0.3 + 0.1 * lam + 0.001 * seed)
        for lam, drop in fallen.items() for seed in range(3)
    )).evidence  # fmt: skip
    assert conclusion.effect.p <= 0.05
    assert conclusion.curves[0].lower[1] is False
    assert conclusion.peaks == []


def test_whether_settings_differ_is_a_sentence_of_its_own():
    finding = concluded(*trend()).findings[1]
    assert finding.startswith("Settings differ in performance: F(4, 8) = ")
    assert "5 settings, 3 seeds" in finding
    assert "cannot be tested" in concluded(*trend(seeds=1)).findings[1]
    few_seeds = concluded(*trend((0.0, 1.0), 2)).findings[1]
    assert "too few" in few_seeds
    assert "cannot fall below 0.50" in few_seeds


def test_methods_and_models_are_blocks_and_the_baseline_counts_once_with_all_zetas():
    models = [item for model in ("tiny-bert", "tiny-gpt") for item in trend(model=model)]
    evidence = concluded(*models, model=["tiny-bert", "tiny-gpt"]).evidence
    assert evidence.relation.lambdas == (5, 5)
    cosreg = trend((1.0, 2.0, 3.0), regularizer=Regularizer.COSREG)
    conclusion = concluded(*trend(), *cosreg)
    assert conclusion.evidence.relation.lambdas == (5, 3)
    assert "across 5 + 3 values of λ" in conclusion.findings[0]
    zetas = [item for zeta in (0.2, 0.8) for item in trend((-1.0, -0.5, 0.5, 1.0), zeta=zeta)]
    evidence = concluded(*trend((0.0,)), *zetas)
    assert (evidence.evidence.relation.lambdas, evidence.evidence.relation.settings) == ((5,), 9)
    assert "across 5 values of λ, 9 settings" in evidence.findings[0]


def test_what_a_relation_takes_for_granted_stands_with_the_method():
    method = concluded(*trend()).methods[0]
    for clause in ("All 120 permutations of the values of λ", "all its seeds", "never across", "0.017",
                 "every order of the values of λ is equally likely", "agree by chance"):  # fmt: skip
        assert clause in method
    logged = trend()
    for item in logged:
        item.config = reported(item)
    assert "We assume that runs of a script with the same seed" in concluded(*logged).methods[0]


def test_runs_that_are_all_there_twice_say_no_more_than_once():
    once, twice = (concluded(*(trend() * often)) for often in (1, 2))
    assert twice.evidence.relation == once.evidence.relation
    assert twice.evidence.effect == once.evidence.effect
    assert twice.evidence.comparisons == once.evidence.comparisons
    assert "counted once" in twice.notes[0]


def test_pruned_settings_failed_seeds_and_runs_without_a_value_are_left_out_and_counted():
    finished = trend((-1.0, 0.0, 1.0))
    result = concluded(*finished, run(1.0, 3, None, None, RunStatus.PRUNED))
    assert [comparison.label for comparison in result.evidence.comparisons] == ["λ = −1"]
    assert "overstate them: λ = 1." in result.notes[0]
    baseline = concluded(*finished, run(0.0, 3, None, None, RunStatus.PRUNED)).notes
    assert "has a performance that counts: λ = −1; λ = 1." in baseline[1]
    failed = [run(lam, seed, None, None, RunStatus.FAILED) for lam, seed in ((1.0, 2), (1.0, 3), (2.0, 0))]
    notes = concluded(*trend((0.0, 1.0), 2), *failed).notes
    assert "because they failed" in notes[0]
    assert "3 runs of λ = 1; λ = 2" in notes[0]
    undefined = run(1.0, 8, performance=None, performance_reason="All predictions are equal.")
    blind = run(1.0, 9, isoscore_star=None)
    result = concluded(*trend((0.0, 1.0), 2), undefined, blind, run(3.0, status=RunStatus.RUNNING, performance=None))
    assert "performance is undefined: 1 run. All predictions are equal." in result.notes[0]
    assert result.notes[1] == "Not in the relation, because IsoScore★ is undefined: 1 run."


def test_a_study_and_what_was_chosen_on_the_rows_shown_are_cautions():
    sentence = "A study chose λ by the results before it"
    assert any(sentence in caution for caution in concluded(*trend(study={"over": True})).cautions)
    assert not any(sentence in caution for caution in concluded(*trend()).cautions)
    picked = "Choosing λ on these rows is optimistic. Report it on rows that chose nothing."
    assert concluded(*trend((-1.0, 0.0, 1.0), 2)).cautions == [picked]
    best = trend((0.0, 1.0), 2, checkpoint="best", selection="validation")
    assert "chose their checkpoint" in concluded(*best).cautions[0]
    assert concluded(*trend((0.0, 1.0), 2, checkpoint="best", selection="held_out")).cautions == []


def test_before_the_first_run_has_finished_it_is_too_early_and_there_is_no_verdict():
    assert concluded(run(performance=None, status=RunStatus.QUEUED)).is_early
    assert not concluded(run()).is_early
    conclusion = concluded(run(1.0, performance=None, status=RunStatus.RUNNING), run(status=RunStatus.FAILED))
    assert "3 values of λ" in conclusion.findings[0]
    assert conclusion.evidence.comparisons == []
    assert Verdict.BETTER == "better"
