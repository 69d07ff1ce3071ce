"""Repeated looks after seeds are added: levels, decisions that stand, proposed seeds."""

import numpy as np
import pytest

from app.core.evidence import look_level
from app.db.models import RunStatus
from app.results.conclusion.comparisons import Verdict
from app.results.conclusion.evidence import pool_sweeps
from app.results.conclusion.proposal import propose_seeds
from app.results.conclusion.summary import Summary
from tests.unit.conclusion.concluding import concluded
from tests.unit.figures.rows import run, sweep

LAMBDAS = (-1.0, -0.5, 0.0, 0.5, 1.0)


def in_rounds(*rounds):
    """Return the runs of all rounds; each round is one look."""
    for seed_round, rows in enumerate(rounds, 1):
        for row in rows:
            row.seed_round = seed_round
    return [row for rows in rounds for row in rows]


def noisy(seeds, gains=None, lams=LAMBDAS, noise=0.01):
    return [
        run(lam, seed, 0.7 + (gains or {}).get(lam, 0.0) + noise * _normal(lam, seed), 0.3 + 0.1 * lam)
        for lam in lams
        for seed in seeds
    ]


def _normal(lam, seed):
    return float(np.random.default_rng([int(10 * lam) + 100, seed]).standard_normal())


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
    assert {comparison.verdict for comparison in conclusion.evidence.comparisons} == {Verdict.WAITING}
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
