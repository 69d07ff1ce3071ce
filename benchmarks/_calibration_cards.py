"""Simulated sweeps and the cards of their page: how often a card is false, and how often it states a true effect."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from app.db.config import RunConfig, TrainingConfig
from app.db.models import Experiment, Run, RunStatus
from app.results.conclusion.comparisons import DECIDED, RowValues, RunFacts
from app.results.conclusion.conclusion import Conclusion
from app.results.conclusion.evidence import FLAT_MARGIN, Evidence, RelationShape, collect_evidence
from app.results.conclusion.proposal import propose_seeds
from app.results.conclusion.summary import Card, Summary
from app.results.run_table import RunTable
from benchmarks._calibration import SEED
from benchmarks._calibration_verdicts import (
    EASE,
    MAX_FALSE,
    NORMAL,
    SIMULATIONS,
    SweepCase,
    answer_rows,
    values_by_row,
)
from isotropy.catalog import Regularizer

CONFIG = TrainingConfig.model_validate(
    {"model": "tiny-bert", "text_columns": ["text"], "label_column": "label", "label_names": ["0", "1"]}
)
BATCH = 100
N_FALSE = 5
"""Number of leading fields of ``Reading`` that are errors."""
YES, PEAK = "Yes", "Not in one direction: it peaks at "

Values = npt.NDArray[np.float64]
Random = np.random.Generator


@dataclass(frozen=True)
class CardCase:
    """A kind of sweep whose isotropy rises with λ, and how its true performance goes with isotropy."""

    name: str
    sweep: SweepCase
    shape: RelationShape = RelationShape.FLAT
    """Flat, rising, or peaking at the baseline."""
    gain: float = 0.0
    """Best minus worst setting, in standard deviations of one run about its setting's mean."""
    methods: tuple[Regularizer, ...] = (Regularizer.ISTAR,)
    """Methods of the lines over λ in turn; further lines of a method have another ζ."""

    @property
    def positions(self) -> list[int]:
        """Return the position of each setting on its line; 0 is the baseline."""
        positions = dict.fromkeys(range(self.sweep.settings), 0)
        for line in self.sweep.ordered_lines:
            positions |= {setting: index - line.index(0) for index, setting in enumerate(line)}
        return [*positions.values()]

    @property
    def gains(self) -> Values:
        """Return the true gain of each setting over the baseline."""
        positions = np.array(self.positions) / max(self.positions)
        profiles = {RelationShape.RISING: positions / 2, RelationShape.PEAK: -(positions**2)}
        return profiles.get(self.shape, np.zeros(len(positions))) * self.gain * self.sweep.deviation

    def list_runs(self) -> list[list[Run]]:
        """Return runs without results [settings, seeds]."""
        experiment = Experiment(id="sweep", name="sweep", config=CONFIG, grid={}, dataset_id="rows")
        n_seeds = max(self.sweep.seeds, *self.sweep.added, 0)
        methods = [(Regularizer.NONE, 0)]
        for number, size in enumerate(self.sweep.lines):
            methods += [(self.methods[number % len(self.methods)], number // len(self.methods))] * size
        return [
            [
                _new_run(experiment, regularizer, float(position), 0.2 * (1 + zeta_index), seed)
                for seed in range(n_seeds)
            ]
            for (regularizer, zeta_index), position in zip(methods, self.positions, strict=True)
        ]  # fmt: skip


def _new_run(experiment: Experiment, regularizer: Regularizer, lam: float, zeta: float, seed: int) -> Run:
    config = RunConfig(**CONFIG.model_dump(), regularizer=regularizer, lam=lam, zeta=zeta, seed=seed)
    run = Run(config=config, regularizer=regularizer, lam=lam, zeta=zeta, seed=seed, status=RunStatus.FINISHED)
    run.id, run.experiment = f"{regularizer}-{lam}-{zeta}-{seed}", experiment
    return run


class Reading(NamedTuple):
    """Which cards of a sweep are false, and which state a true effect."""

    false_best: bool
    false_effect: bool
    false_overall: bool
    """Whether the overall test, which the second card states, falsely finds a difference."""
    false_relation: bool
    any_false: bool
    """Whether any of the three cards is false."""
    best: bool
    effect: bool
    relation: bool


def readings(case: CardCase, sweeps: int, random: Random) -> Iterator[Reading]:
    """Simulate sweeps, add the seeds that the page proposes, and yield a reading of each sweep."""
    sweep, gains, runs = case.sweep, case.gains, case.list_runs()
    spread = EASE / NORMAL.inv_cdf(float(sweep.true_accuracy(np.full(sweep.settings, EASE)).mean()))
    ease_gains = gains * spread / NORMAL.pdf(EASE / spread)
    # Noise changes the mean accuracy a little, and gains in ease give accuracy gains only to first order: correct both.
    shift = gains - sweep.true_accuracy(EASE + ease_gains)
    for start in range(0, sweeps, BATCH):
        for answers in answer_rows(sweep, ease_gains, min(BATCH, sweeps - start), random):
            values = values_by_row(sweep, answers, random).astype(np.float32)
            scores = values.mean(axis=2, dtype=float) + shift[:, None]
            isotropy = 0.1 * np.array(case.positions)[:, None] + 0.02 * random.standard_normal(scores.shape)
            facts = {}
            for index, setting_runs in enumerate(runs):
                for run in setting_runs:
                    run.performance, run.isoscore_star = scores[index, run.seed], 0.5 + isotropy[index, run.seed]
                    facts[run.id] = RunFacts(RowValues(b"rows", values[index, run.seed]), "")
            yield _judge(*_read(sweep, runs, facts), runs, gains)


def _read(sweep: SweepCase, runs: list[list[Run]], facts: dict[str, RunFacts]) -> tuple[RunTable, Evidence]:
    """Add seeds as the page proposes; return the runs and the evidence at the last look."""
    counts = [sweep.seeds] * len(runs)
    for run in (run for setting_runs in runs for run in setting_runs):
        run.seed_round = 1
    for look in range(1, len(sweep.added) + 2):
        table = RunTable(
            [run for setting_runs, n_seeds in zip(runs, counts, strict=True) for run in setting_runs[:n_seeds]]
        )
        evidence = collect_evidence(table, facts)
        proposal = propose_seeds(evidence, table)
        if proposal is None or look > len(sweep.added):
            break
        for index, setting_runs in enumerate(runs):
            if table.setting(setting_runs[0]) in proposal.settings:
                for run in setting_runs[counts[index] : counts[index] + proposal.seeds]:
                    run.seed_round = look + 1
                counts[index] += proposal.seeds
    return table, evidence


def _judge(table: RunTable, evidence: Evidence, runs: list[list[Run]], gains: Values) -> Reading:
    settings = [table.setting(setting_runs[0]) for setting_runs in runs]
    gain_by_label = dict(zip(map(table.label, settings), gains.tolist(), strict=True))
    best, effect, relation = Summary(Conclusion(table, evidence), "Accuracy").cards
    differs = bool(gains.any())
    false_best = gain_by_label.get(best.answer, 1.0) <= 0
    false_verdict = any(
        row.verdict in DECIDED and row.estimate * gain_by_label[row.label] <= 0 for row in evidence.comparisons
    )
    false_effect = (
        false_verdict or (effect.answer.startswith(YES) and not differs) or _has_false_trend(effect, gains, runs)
    )
    false_relation = _is_false(relation, gain_by_label, table)
    return Reading(
        false_best,
        false_effect,
        evidence.overall is not None and evidence.overall.decided and not differs,
        false_relation,
        false_best or false_effect or false_relation,
        gain_by_label.get(best.answer, 0.0) > 0,
        effect.answer.startswith(YES),
        relation.answer.startswith((YES, PEAK)) and not false_relation,
    )


def _has_false_trend(effect: Card, gains: Values, runs: list[list[Run]]) -> bool:
    slope = float(gains @ [setting_runs[0].lam for setting_runs in runs])
    return ("rises with λ" in effect.evidence and slope <= 0) or ("falls with λ" in effect.evidence and slope >= 0)


def _is_false(relation: Card, gain_by_label: dict[str, float], table: RunTable) -> bool:
    """Return whether the card of the relation is false, given that isotropy rises with λ."""
    low, high = (gain_by_label[table.label(table.settings[end])] for end in (0, -1))
    if relation.answer.startswith(PEAK):
        labels = relation.answer.removeprefix(PEAK).split(" or ")
        return min(gain_by_label[label] for label in labels) <= max(low, high)
    if relation.answer.startswith("No: flat"):
        return max(map(abs, gain_by_label.values())) > FLAT_MARGIN
    return relation.answer.startswith(YES) and (high <= low if relation.answer.endswith("higher") else high >= low)


METHODS = (Regularizer.ISTAR, Regularizer.COSREG)
CASES = (
    CardCase("cards, 5 x 3, equal variances", SweepCase("", (4,), 3)),
    CardCase("cards, 5 x 3, one setting 6x noisier", SweepCase("", (4,), 3, noise={2: 6.0})),
    CardCase("cards, 5 x 3, baseline 4x noisier", SweepCase("", (4,), 3, noise={0: 4.0})),
    CardCase("cards, 5 x 3, rows dominate", SweepCase("", (4,), 3, by_run=0.02, by_row=0.6)),
    CardCase("cards, 5 x 3, two looks", SweepCase("", (4,), 3, added=(6,))),
    CardCase("cards, 5 x 3, three looks", SweepCase("", (4,), 3, added=(6, 12))),
    CardCase("cards, 7 x 5, equal variances", SweepCase("", (6,), 5)),
    CardCase("cards, 7 x 5, one setting 6x noisier", SweepCase("", (6,), 5, noise={3: 6.0})),
    CardCase("cards, 7 x 5, baseline 4x noisier", SweepCase("", (6,), 5, noise={0: 4.0})),
    CardCase("cards, 7 x 5, rows dominate", SweepCase("", (6,), 5, by_run=0.02, by_row=0.6)),
    CardCase("cards, 7 x 5, three looks", SweepCase("", (6,), 5, added=(10, 20))),
    CardCase("cards, two regularizers x 4 λ x 3", SweepCase("", (4, 4), 3), methods=METHODS),
    CardCase("cards, 7 λ x 4 ζ x 3", SweepCase("", (6, 6, 6, 6), 3)),
    CardCase("cards, 5 x 3, rises by 3", SweepCase("", (4,), 3), RelationShape.RISING, 3),
    CardCase("cards, 7 x 5, rises by 3", SweepCase("", (6,), 5), RelationShape.RISING, 3),
    CardCase("cards, 5 x 3, peaks by 3", SweepCase("", (4,), 3), RelationShape.PEAK, 3),
    CardCase("cards, 7 x 5, peaks by 3", SweepCase("", (6,), 5), RelationShape.PEAK, 3),
)

HEAD = (
    "| sweep (settings x seeds) | best falsely | λ matters falsely | overall test false | relation falsely "
    "| any card false | best named | λ matters | shape named |\n|---|---|---|---|---|---|---|---|---|"
)


class CardRates(NamedTuple):
    """The simulated rates of a case."""

    case: CardCase
    rates: list[float]
    """Means of the fields of ``Reading``, in order."""
    simulations: int

    def ok(self, errors: float = 2.0) -> bool:
        """Return whether all false rates lie within their bound, widened by this number of binomial errors."""
        slack = errors * sqrt(MAX_FALSE * (1 - MAX_FALSE) / self.simulations)
        return max(self.rates[:N_FALSE]) <= MAX_FALSE + slack

    def row(self) -> str:
        """Return a row of a table in Markdown, under ``HEAD``."""
        cells = [f"{rate:.3f}" for rate in self.rates[:N_FALSE]]
        cells += [f"{rate:.2f}" if self.case.gain else "" for rate in self.rates[N_FALSE:]]
        return f"| {' | '.join([self.case.name, *cells])} |"


def card_rates(case: CardCase, simulations: int | None = None) -> CardRates:
    """Simulate a case, with random numbers that depend on its name alone."""
    sweeps = simulations or SIMULATIONS
    random = np.random.default_rng([SEED, crc32(case.name.encode())])
    return CardRates(case, np.mean([*readings(case, sweeps, random)], axis=0).tolist(), sweeps)
