import pytest

from app.conclusion.conclusion import Conclusion
from app.db.models import RunStatus
from app.db.penalty import Regularizer
from tests.unit.figures.rows import run, sweep

INTERVALS = (
    "Intervals take the differences for normal (Student’s t), and p takes nothing but that either sign is as likely, "
    "for which it needs more seeds: an interval may leave out 0 where p cannot tell."
)


def runs(lams, seeds, slope=0.05, **options):
    return [
        run(lam, seed, 0.6 + slope * lam + 0.001 * seed, 0.3 + 0.1 * lam + 0.001 * seed, **options)
        for lam in lams
        for seed in range(seeds)
    ]


def concluded(*given, **grid):
    return Conclusion(sweep(*given, **grid))


def test_the_headline_tells_direction_coefficients_p_and_n():
    found = concluded(*runs((-1.0, 0.0, 1.0), 4))
    assert found.headline == (
        "The more isotropic a run, the better it does: "
        "Spearman 1.00 (p = 0.0015), Pearson 1.00 (p = 0.0015), over 12 runs."
    )
    assert found.permuted.startswith(
        "p is two-sided, by all 1,296 permutations of settings within seed: runs of one seed begin"
    )
    worse = concluded(*runs((-1.0, 0.0, 1.0), 4, slope=-0.05))
    assert worse.headline.startswith("The more isotropic a run, the worse it does: Spearman −")


def test_few_runs_say_that_nothing_can_be_told_and_what_p_they_could_reach():
    found = concluded(*runs((0.0, 1.0), 2))
    assert found.headline.startswith(
        "By rank it cannot be told from chance whether isotropy and performance go together:"
    )
    assert found.permuted.endswith("So few runs cannot give a p below 0.50.")


def test_settings_whose_seeds_all_score_alike_are_named_and_the_correlation_is_told_without_them():
    failed = [run(-1.0, seed, 0.5, 0.001) for seed in range(4)]
    found = concluded(*failed, *runs((0.0, 1.0, 2.0), 4, slope=-0.05))
    assert found.without_alike == (
        "Without λ = −1, whose seeds all score alike: "
        "Spearman −0.79 (p = 0.0015), Pearson −1.00 (p = 0.0015), over 12 runs."
    )
    assert found.evidence.correlation.n == 16
    assert found.cautions[0] == (
        "All seeds score alike, as models do that have learned to answer the same to everything: "
        "λ = −1 (0.500 in 4 seeds). Their loss curves tell whether the training failed."
    )


def test_seeds_that_all_solve_the_task_or_one_seed_alone_are_not_taken_for_failed():
    solved = concluded(*(run(-1.0, seed, 1.0) for seed in range(3)), run(2.0, 0, 0.5), *runs((0.0, 1.0), 3))
    assert (solved.evidence.alike, solved.without_alike) == ({}, "")


def test_seeds_of_the_one_setting_that_is_left_have_no_correlation_told_of_them():
    found = concluded(*(run(-1.0, seed, 0.5, 0.1) for seed in range(3)), *runs((0.0,), 3))
    assert (len(found.evidence.alike), found.without_alike) == (1, "")


def test_where_every_setting_scores_alike_there_is_a_caution_and_no_other_correlation():
    found = concluded(*(run(lam, seed, 0.5) for lam in (0.0, 1.0) for seed in (0, 1)))
    assert found.without_alike == ""
    assert "λ = 0 (0.500 in 2 seeds); λ = 1 (0.500 in 2 seeds)" in found.cautions[0]


def test_every_lambda_is_compared_with_zero_by_seed():
    found = concluded(*runs((-1.0, 0.0, 1.0), 5)).evidence
    assert [(one.label, one.seeds) for one in found.differences] == [
        ("λ = −1", [0, 1, 2, 3, 4]),
        ("λ = 1", [0, 1, 2, 3, 4]),
    ]
    assert [one.difference.mean for one in found.differences] == pytest.approx([-0.05, 0.05])
    assert [(one.flips.p, one.p_holm) for one in found.differences] == [(0.0625, 0.125)] * 2
    assert found.smallest_p_holm == 0.125


def test_it_is_told_where_no_difference_can_be_significant_and_how_many_seeds_that_takes():
    assert concluded(*runs((-1.0, 0.0, 1.0), 3)).tested == [
        "Paired by seed (3 seeds); p is two-sided, by all flips of sign of the differences, "
        "corrected by Holm for 2 settings.",
        INTERVALS,
        "The smallest p that 3 seeds can reach is 0.25, 0.50 after Holm: "
        "no difference can fall below 0.05, however great. That takes 7 seeds or more.",
    ]
    enough = concluded(*runs((-1.0, 0.0, 1.0), 7))
    assert enough.tested[1:] == [INTERVALS]
    assert [one.verdict for one in enough.evidence.differences] == ["worse", "better"]


def test_seeds_too_few_for_any_difference_cannot_tell_and_others_merely_do_not_tell_apart():
    few = concluded(*runs((-1.0, 0.0, 1.0), 3)).evidence
    assert [few.cannot_tell(one) for one in few.differences] == [True, True]
    assert [(one.difference.mean > one.difference.half_width, one.verdict) for one in few.differences][1] == (True, "")
    level = concluded(*runs((0.0, 1.0), 7, slope=0), run(2.0, 0)).evidence
    assert [(one.verdict, level.cannot_tell(one)) for one in level.differences] == [("", False), ("", True)]


def test_where_pearson_alone_is_told_from_chance_the_headline_says_that_ranks_decide():
    far, near = ((1.0, 0.1, 0.4),), ((0.0, 0.5, 0.9), (2.0, 0.58, 0.6))
    found = concluded(*(run(lam, seed, y + 0.01 * (seed % 2), x + 0.01 * (seed // 2))
                        for lam, y, x in (*far, *near) for seed in range(4)))  # fmt: skip
    correlation = found.evidence.correlation
    assert correlation.pearson.p <= 0.05 < correlation.spearman.p
    assert found.headline.endswith(
        "Only Pearson’s p is small, as one setting far from the others can make it: ranks decide."
    )


def test_each_family_has_the_baseline_that_is_alike_in_all_else():
    models = ["tiny-bert", "tiny-gpt"]
    of_one = [run(lam, seed, 0.9 - 0.1 * lam, 0.2 + lam, model="tiny-bert") for lam in (0.0, 1.0) for seed in (0, 1)]
    of_other = [run(lam, seed, 0.5 + 0.1 * lam, 0.3 + lam, model="tiny-gpt") for lam in (0.0, 1.0) for seed in (0, 1)]
    found = concluded(*of_one, *of_other, model=models)
    assert [one.difference.mean for one in found.evidence.differences] == pytest.approx([-0.1, 0.1])
    assert found.evidence.within == ["model"]
    assert "each within its model" in found.headline
    assert "permutations of settings within seed and model" in found.permuted


def test_settings_of_zeta_share_the_baseline():
    zetas = [run(1.0, seed, 0.7, 0.4, zeta=zeta) for zeta in (0.2, 0.8) for seed in (0, 1)]
    found = concluded(*runs((0.0,), 2), *zetas).evidence
    assert [one.setting.zeta for one in found.differences] == [0.2, 0.8]


def test_what_cannot_be_compared_is_told():
    assert concluded(*runs((1.0,), 2)).notes == [
        "Not compared, because no run at λ = 0 that is alike in all else has a performance: λ = 1."
    ]
    assert concluded(run(0.0, 1), run(1.0, 2)).notes == ["Not compared, because λ = 0 was run with other seeds: λ = 1."]
    plain = concluded(*runs((0.0,), 3))
    assert plain.tested == ["All runs are plain training, so there is no λ to compare with λ = 0."]


def test_two_runs_of_a_seed_are_compared_by_their_mean_and_named():
    found = concluded(run(0.0, 0, 0.5), run(1.0, 0, 0.6), run(1.0, 0, 0.8))
    assert found.notes == [
        "Run more than once, and counted once, by the mean of such runs, in the correlation and in the comparison: "
        "λ = 1, seed 0."
    ]
    assert found.evidence.differences[0].difference.mean == pytest.approx(0.2)


def test_runs_that_are_all_there_twice_say_no_more_than_once():
    once, twice = (concluded(*(runs((-1.0, 0.0, 1.0), 2) * often)) for often in (1, 2))
    assert twice.evidence.correlation == once.evidence.correlation
    assert twice.evidence.correlation.spearman.p == pytest.approx(2 / 36)
    assert twice.evidence.differences == once.evidence.differences
    assert twice.headline == once.headline.replace("6 runs", "6 runs, repeated ones counted once")
    assert twice.notes[0].endswith("λ = −1, seed 0; λ = −1, seed 1; λ = 0, seed 0 and 3 more.")


def test_a_setting_of_which_a_study_gave_up_a_run_is_left_out_with_a_sentence():
    kept = runs((-1.0, 0.0, 1.0), 3)
    given_up = run(1.0, 3, None, None, RunStatus.PRUNED)
    found = concluded(*kept, given_up)
    assert [one.label for one in found.evidence.differences] == ["λ = −1"]
    assert found.evidence.correlation.n == 6
    assert found.notes == [
        "Left out, because the study gave up some of their runs by what these had reached, and those that it let "
        "finish flatter them: λ = 1."
    ]
    baseline = concluded(*kept, run(0.0, 3, None, None, RunStatus.PRUNED)).notes
    assert baseline[1].startswith("Not compared, because no run at λ = 0 that is alike in all else has a performance "
                                  "that counts: λ = −1; λ = 1.")  # fmt: skip


def test_seeds_that_failed_are_counted_with_their_settings():
    failed = [run(lam, seed, None, None, RunStatus.FAILED) for lam, seed in ((1.0, 2), (1.0, 3), (2.0, 0))]
    assert concluded(*runs((0.0, 1.0), 2), *failed).notes == [
        "Not in any number, because they failed, so that only other seeds count: 3 runs of λ = 1; λ = 2."
    ]


def test_a_study_says_that_its_p_values_are_not_exact():
    told = "A study chose λ by the results before it, so the runs are not independent and no p is exact."
    assert told in concluded(*runs((0.0, 1.0), 2, study={"over": True})).cautions
    assert told in concluded(*runs((0.0,), 2), *runs((1.0,), 2, study={"over": True})).cautions
    assert told not in concluded(*runs((0.0, 1.0), 2)).cautions


def test_of_runs_that_a_script_logged_it_is_taken_that_they_begin_alike():
    logged = runs((0.0, 1.0), 2)
    for one in logged:
        one.config = one.config | {"logged": True}
    assert "runs of one seed are taken to begin alike" in concluded(*logged).permuted
    assert "begin with the same weights" not in concluded(*logged).permuted


def test_seventy_seeds_of_one_setting_have_a_conclusion():
    found = concluded(*(run(0.0, seed, 0.5 + 0.001 * (seed % 7), 0.3 + 0.001 * (seed % 5)) for seed in range(70)))
    assert "over 70 runs" in found.headline
    assert found.permuted.startswith("There is no p:")


def test_where_seeds_hide_the_direction_it_is_told_that_runs_of_the_same_seed_are_compared():
    hidden = [run(lam, seed, seed - 0.1 * lam, 0.3 + 0.1 * lam + seed) for lam in (0.0, 1.0, 2.0) for seed in (0, 1, 2)]
    found = concluded(*hidden)
    assert found.headline.startswith("The more isotropic a run, the worse it does, against runs of the same seed:")
    assert found.evidence.correlation.spearman.value > 0


def test_permutations_that_are_drawn_are_said_to_be_random():
    assert "by 9,999 random permutations of settings" in concluded(*runs((-1.0, 0.0, 1.0, 2.0), 4)).permuted


def test_where_no_number_of_seeds_is_enough_that_is_told():
    many = concluded(*(run(lam / 10, seed) for lam in range(502) for seed in (0, 1)))
    assert many.tested[-1].endswith("No number of seeds is enough for so many settings.")


def test_runs_without_a_value_are_left_out_and_counted():
    undefined = run(1.0, 8, performance=None, performance_reason="All predictions are equal.")
    blind = run(1.0, 9, isoscore_star=None)
    found = concluded(*runs((0.0, 1.0), 2), undefined, blind, run(3.0, status=RunStatus.RUNNING, performance=None))
    assert found.notes == [
        "Left out, because performance is undefined: 1 run. All predictions are equal.",
        "Not in the correlation, because IsoScore★ is undefined: 1 run.",
    ]
    assert found.evidence.correlation.n == 4


def test_what_was_chosen_on_the_rows_shown_is_told():
    picked = "A λ picked here is chosen on the rows shown: report it on rows that chose nothing."
    assert concluded(*runs((-1.0, 0.0, 1.0), 2)).cautions == [picked]
    best = runs((0.0, 1.0), 2, checkpoint="best", selection="validation")
    told = "The runs chose their checkpoint or their end on the validation rows shown, which flatters them."
    assert concluded(*best).cautions == [told]
    assert concluded(*runs((0.0, 1.0), 2, checkpoint="best", selection="held_out")).cautions == []
    some = concluded(*runs((0.0,), 2), *runs((1.0,), 2, patience=2, selection="validation")).cautions
    assert some == [
        "2 of 4 runs chose their checkpoint or their end on the validation rows shown, which flatters them."
    ]


def test_methods_are_named_where_there_are_several():
    found = concluded(*runs((0.0, 1.0), 2), *runs((1.0,), 2, regularizer=Regularizer.COSREG)).evidence
    assert [one.label for one in found.differences] == ["I-STAR, λ = 1", "CosReg, λ = 1"]


def test_before_the_first_run_has_finished_it_is_too_early():
    assert concluded(run(performance=None, status=RunStatus.QUEUED)).early
    assert not concluded(run()).early
