"""The conclusion from a sweep: evidence, sentences and cautions, cached until its runs change."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b

from app.context import Context
from app.core.recent_values import RecentValues
from app.db.learning import divergence_note, no_learning_note
from app.db.models import RunStatus, Split
from app.db.options.measuring import SelectionRows
from app.db.predictions import Predictions, read_predictions
from app.db.run_rows import AnyRun
from app.results.captions import describe_pruned, describe_unscored, join_first
from app.results.conclusion import verdict_words, words
from app.results.conclusion.comparisons import NO_FACTS, PREDICTIONS_DISAGREE, RunFacts, Verdict, compute_row_values
from app.results.conclusion.evidence import Evidence, PooledRelation, collect_evidence, pool_sweeps
from app.results.run_table import RunTable
from isoscope.core.formatting import capitalized, count, plural


@dataclass(frozen=True)
class Conclusion:
    """The conclusion from a sweep, as pages and the API report it."""

    sweep: RunTable
    evidence: Evidence
    pooled: PooledRelation | None = None
    """The relation over this sweep and those on other data sets; None without other data sets."""

    @property
    def is_early(self) -> bool:
        """Return whether no run has a performance yet."""
        return not any(run.performance is not None for run in self.sweep.runs)

    @cached_property
    def findings(self) -> list[str]:
        """Return the findings: what collapsed first, then whether settings differ, then the relation."""
        sentences = [*words.describe_collapse(self.evidence), words.describe_effect(self.evidence)]
        if not self.evidence.unfinished:
            sentences.append(words.describe_shape(self.evidence))
            sentences += [words.describe_pooled_relation(self.pooled)] if self.pooled else []
        return sentences

    @cached_property
    def verdict_rows(self) -> list[verdict_words.VerdictRow]:
        return [verdict_words.make_verdict_row(comparison) for comparison in self.evidence.comparisons]

    @property
    def verdict_scope(self) -> list[str]:
        return verdict_words.describe_scope(self.evidence)

    @property
    def quote_advice(self) -> str:
        return verdict_words.recommend_quote(self.evidence)

    @cached_property
    def methods(self) -> list[str]:
        """Describe how everything was computed, and its assumptions."""
        evidence = self.evidence
        relation_method = words.describe_relation_method(evidence.relation, self.sweep)
        return [*verdict_words.describe_methods(evidence, self.sweep), *filter(None, [relation_method])]

    @property
    def notes(self) -> list[str]:
        """Return what was left out or could not be compared."""
        return [*describe_left_out(self.sweep, self.evidence), *self.evidence.uncompared_notes]

    @property
    def cautions(self) -> list[str]:
        """Return the limits of the conclusion."""
        return describe_cautions(self.evidence, self.sweep)


def describe_cautions(evidence: Evidence, sweep: RunTable) -> list[str]:
    """Describe runs that failed to train, dependent runs, and choices made on the validation rows."""
    runs = sweep.finished_runs
    sentences = []
    for flagged, failure in ((evidence.learned_nothing, "learned nothing"), (evidence.diverged, "diverged")):
        if flagged:
            labels = join_first([run_flag.label for run_flag in flagged])
            reasons = list(dict.fromkeys(run_flag.why for run_flag in flagged))
            reason = reasons[0] if len(reasons) == 1 else f"For example, {flagged[0].label}: {reasons[0]}"
            sentences.append(f"{plural(len(flagged), 'run')} {failure}: {labels}. {reason}")
    if any(comparison.no_rows_reason == PREDICTIONS_DISAGREE for comparison in evidence.comparisons):
        sentences.append(f"{capitalized(PREDICTIONS_DISAGREE)}. Settings are compared by the logged one.")
    if any(run.experiment.study for run in sweep.runs):
        sentences.append("A study chose λ by the results before it, so the runs are not independent and no p is exact.")
    cells = {(sweep.setting(run), run.seed, run.experiment_id) for run in runs}
    if len({cell[:2] for cell in cells}) < len(cells):
        sentences.append(
            "Runs of several experiments with the same setting and seed are averaged. Open each to see it alone."
        )
    configs = [run.config for run in runs if run.config.selects_during_training]
    if n_selected := sum(config.selection is SelectionRows.VALIDATION for config in configs):
        subject = "The runs" if n_selected == len(runs) else f"{count(n_selected)} of {plural(len(runs), 'run')}"
        sentences.append(
            f"{subject} chose their checkpoint or their end on the validation rows shown, which flatters them."
        )
    if len(evidence.comparisons) > 1:
        sentences.append("Choosing λ on these rows is optimistic. Report it on held-out rows.")
    return sentences


def describe_left_out(sweep: RunTable, evidence: Evidence) -> list[str]:
    """List the runs that the numbers leave out, and the repeated runs that count as one."""
    sentences = []
    if unscored_sentence := describe_unscored(sweep).replace("Not drawn", "Left out").strip():
        sentences.append(unscored_sentence)
    if n_unmeasured := sum(run.performance is not None and run.isoscore_star is None for run in sweep.finished_runs):
        sentences.append(f"Not in the relation, because IsoScore★ is undefined: {plural(n_unmeasured, 'run')}.")
    if failed := [run for run in sweep.runs if run.status is RunStatus.FAILED]:
        labels = join_first([sweep.label(setting) for setting in sweep.by_setting(failed)])
        failed_count = plural(len(failed), "run")
        sentences.append(
            f"Not in any number, because they failed, so that only other seeds count: {failed_count} of {labels}."
        )
    if pruned_sentence := describe_pruned(sweep, "Left out").strip():
        sentences.append(pruned_sentence)
    if evidence.repeated:
        sentences.append(f"A seed of several runs counts once, by their mean: {join_first(evidence.repeated)}.")
    return sentences


SAME_PREDICTION_SHARE = 0.99
"""A run has collapsed if at least this fraction of its rows gets the same prediction."""
MAX_CACHED_BYTES = 128 * 2**20
"""Maximum size of cached facts: 500 runs of 60,000 rows each, or 3,000 of 10,000."""
MAX_CACHED_CONCLUSIONS = 64
RUNS_PER_BATCH = 100
"""Runs whose predictions are unpacked at a time."""
BYTES_PER_RUN = 2_000
"""Estimated size of a run's cached facts without row values."""


def read_conclusion(context: Context, sweep: RunTable, other_sweeps: Sequence[RunTable] = ()) -> Conclusion:
    """Return the conclusion of a sweep; with other sweeps, also the relation pooled over their data sets."""
    # Evidence is cached without other sweeps, because figures read it without them.
    evidence = read_evidence(context, sweep, other_sweeps)
    return Conclusion(sweep, evidence, _read_pooled_relation([sweep, *other_sweeps]) if other_sweeps else None)


def read_evidence(context: Context, sweep: RunTable, next_sweeps: Sequence[RunTable] = ()) -> Evidence:
    """Return the evidence of a sweep.

    If it is not cached, one query reads the facts of ``next_sweeps`` too, because their evidence is needed next.
    """
    key = _cache_key([sweep])
    evidence = _evidence_cache.get(key)
    if evidence is None:
        runs = dict.fromkeys(run for table in (sweep, *next_sweeps) for run in table.runs)
        evidence = collect_evidence(sweep, _read_facts(context, runs))
        _evidence_cache.put(key, evidence, 1)
    return evidence


def find_verdicts(context: Context, sweeps: Sequence[RunTable]) -> dict[str, Verdict]:
    """Return ``BETTER`` for runs of each sweep's best setting and ``COLLAPSED`` for those that collapsed, by run id."""
    verdicts: dict[str, Verdict] = {}
    for sweep in sweeps:
        evidence = read_evidence(context, sweep, sweeps)
        verdict_by_setting = {collapse.setting: Verdict.COLLAPSED for collapse in evidence.collapsed}
        verdict_by_setting |= {evidence.best.setting: Verdict.BETTER} if evidence.best else {}
        verdicts |= {run.id: verdict for run in sweep.runs if (verdict := verdict_by_setting.get(sweep.setting(run)))}
    return verdicts


def _read_pooled_relation(sweeps: Sequence[RunTable]) -> PooledRelation | None:
    key = _cache_key(sweeps)
    pooled = _pooled_cache.get(key)
    if pooled is None and (pooled := pool_sweeps(sweeps)) is not None:
        _pooled_cache.put(key, pooled, 1)
    return pooled


def _read_facts(context: Context, runs: Iterable[AnyRun]) -> dict[str, RunFacts]:
    finished = [run for run in runs if run.status is RunStatus.FINISHED]
    facts = {run.id: cached for run in finished if (cached := _fact_cache.get(run_version(run))) is not None}
    missing_runs = [run for run in finished if run.id not in facts]
    for start in range(0, len(missing_runs), RUNS_PER_BATCH):
        batch = missing_runs[start : start + RUNS_PER_BATCH]
        with context.sessions() as session:
            stored_predictions = read_predictions(session, [run.id for run in batch], Split.VALIDATION)
        for run in batch:
            run_facts = _facts_from_predictions(run, stored_predictions.get(run.id))
            size = BYTES_PER_RUN + (run_facts.row_values.values.nbytes if run_facts.row_values else 0)
            _fact_cache.put(run_version(run), run_facts, size)
            facts[run.id] = run_facts
    return {
        run.id: replace(facts[run.id], learned_nothing=no_learning_note(run), diverged=divergence_note(run))
        for run in finished
    }


def _facts_from_predictions(run: AnyRun, predictions: Predictions | None) -> RunFacts:
    if predictions is None:
        return NO_FACTS
    same_prediction_note = None
    if len(predictions) > 1 and (share := predictions.largest_share) >= SAME_PREDICTION_SHARE:
        same_prediction_note = f"{share:.0%} of the validation rows get the same prediction."
    digest = blake2b(predictions.rows.tobytes(), digest_size=16)
    if predictions.reference is not None:
        digest.update(predictions.reference.tobytes())
    row_values = compute_row_values(run, predictions, digest.digest())
    if isinstance(row_values, str):
        return RunFacts(no_rows_reason=row_values, same_prediction_note=same_prediction_note)
    return RunFacts(row_values, no_rows_reason="", same_prediction_note=same_prediction_note)


def run_version(run: AnyRun) -> Hashable:
    """Return a key that changes when a run is retried or logs more."""
    return run.id, run.seed_round, run.finished_at, run.performance, run.heard_at


def _cache_key(sweeps: Sequence[RunTable]) -> tuple[Hashable, ...]:
    return tuple(
        (
            (*sweep.fields, repr([sweep.grid[field] for field in sweep.fields])),
            tuple(
                (run_version(run), run.status, run.isoscore_star, repr(run.learning), sweep.setting(run))
                for run in sweep.runs
            ),
        )
        for sweep in sweeps
    )


_fact_cache: RecentValues[RunFacts] = RecentValues(MAX_CACHED_BYTES)
# Cached values hold no references to database rows, which would stay in memory.
_evidence_cache: RecentValues[Evidence] = RecentValues(MAX_CACHED_CONCLUSIONS)
_pooled_cache: RecentValues[PooledRelation] = RecentValues(MAX_CACHED_CONCLUSIONS)
