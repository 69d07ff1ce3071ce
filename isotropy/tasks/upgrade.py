"""A change of the model: stay with the old one, bridge into its stored vectors, or embed all texts again."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotropy.catalog import METRICS, Similarity, TruthKind, format_percent, format_signed
from isotropy.tasks.bootstrap import Interval, Numbers, Statistic, intervals, mean
from isotropy.tasks.bridges import Bridge, fit_bridges
from isotropy.tasks.judge import JudgingTask
from isotropy.tasks.parts import TaskPart, groups_of
from isotropy.tasks.search import Floats, Indices, nearest, prepare, require_searchable
from isotropy.tasks.storage import StoredSpace, VectorStorage
from isotropy.tasks.truth import DEPTH, LabelTruth, PairTruth, QueryTruth, Truth, number_vectors

RETAIN = 0.95  # Share that a bridge has to keep, by default
ADVICE = {
    "stay": "Stay with the old model.",
    "bridge": "Bridge: keep the old vectors and map the new model's queries.",
    "re-embed": "Re-embed.",
}


@dataclass(frozen=True)
class KeptShare:
    """A share that a bridge keeps, with its 95% interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{format_percent(self.value)} ({format_percent(self.low)} to {format_percent(self.high)})"


@dataclass(frozen=True)
class Upgrade:
    """The shares that a bridge from a new model into old vectors keeps, and the verdict."""

    metric: str
    similarity: Similarity
    n: int  # Old vectors that are searched
    sampled: int  # Those whose texts the new model has embedded
    texts: int  # Texts that the new model has to embed
    fit_texts: int  # Texts that the bridge is fitted on
    choose_units: int
    report_units: int
    bridge: str
    retain: float
    kept_old: KeptShare | None  # Of the old model's ten nearest, found by mapped queries; None without queries
    kept_new: KeptShare | None  # Of the ten nearest after re-embedding; None without queries
    # Of "old", "bridged" and "new", with differences to "old"; None without ground truth.
    scores: dict[str, Interval] | None
    kept_score: KeptShare | None  # Of the new model's score; None without ground truth

    @property
    def verdict(self) -> str:
        if self.scores is not None and not self.scores["new"].difference_low > 0:
            return "stay"
        is_kept = any(share.low >= self.retain for share in self._deciding_shares)
        return "bridge" if is_kept and not self._is_worse_than_old else "re-embed"

    @property
    def conclusion(self) -> str:
        """Advice in sentences, with scores on the report part."""
        advice, cost = ADVICE[self.verdict], f"Re-embedding takes {self.texts:,} texts."
        if self.verdict == "re-embed" and any(share.high >= self.retain for share in self._deciding_shares):
            cost += f" More queries may show that a bridge keeps {format_percent(self.retain)}."
        if self.scores is None:
            return (
                f"{advice} Mapped queries find {self.kept_old} of the old model's ten nearest and {self.kept_new} of "
                f"those after re-embedding. {cost} Only ground truth can show which model is better."
            )
        old, bridged, new = self.scores.values()
        interval = f"{format_signed(new.difference_low)} to {format_signed(new.difference_high)}"
        gain = (
            f"{METRICS[self.metric]} is {new.value:.3f} with the new model, {old.value:.3f} with the old ({interval})"
        )
        if self.verdict == "stay":
            comparison = "clearly worse" if new.difference_high < 0 else "not clearly better"
            return f"{advice} {gain}: {comparison}. Through the bridge it is {bridged.value:.3f}."
        remark = " and worse than with the old" if self._is_worse_than_old else ""
        bridge = f"Through the bridge it is {bridged.value:.3f}, {self.kept_score} of the new{remark}."
        return f"{advice} {gain}. {bridge} {cost}"

    @property
    def _deciding_shares(self) -> Sequence[KeptShare]:
        """Shares that decide: the bridge has to keep at least one of them."""
        shares = (self.kept_old, self.kept_new) if self.scores is None else (self.kept_score,)
        return [share for share in shares if share is not None]

    @property
    def _is_worse_than_old(self) -> bool:
        return self.scores is not None and self.scores["bridged"].difference_high < 0

    def to_dict(self) -> dict[str, Any]:
        scores = {name: score._asdict() for name, score in (self.scores or {}).items()}
        return {"verdict": self.verdict, "conclusion": self.conclusion, **asdict(self), "scores": scores or None}


class UpgradeTask(NamedTuple):
    """Vectors of the same texts by an old and a new model, finite."""

    old: JudgingTask
    corpus: NDArray[Any]  # [n, e], new vectors of the old corpus
    queries: NDArray[Any] | None  # [m, e], new vectors of the old queries
    texts: int  # Texts that the new model has to embed
    unsampled_corpus: NDArray[Any]  # [u, d], old vectors of texts outside the sample, searched but never embedded anew


def judge_upgrade(task: UpgradeTask, retain: float = RETAIN) -> tuple[Upgrade, Bridge]:
    """Fit bridges on the texts that are not judged; return the judgment of the best on the choose part, and the bridge.

    ``retain`` is the share that a bridge has to keep.
    """
    old, parts, truth, similarity = task.old, task.old.parts, task.old.truth, task.old.similarity
    for name, vectors in {"new corpus": task.corpus, "new queries": task.queries}.items():
        require_searchable(name, vectors, similarity)
    choosing, reporting = (parts[parts != TaskPart.FIT] == part for part in (TaskPart.CHOOSE, TaskPart.REPORT))
    choose_statistic, report_statistic = (truth.statistic(parts == part) for part in (TaskPart.CHOOSE, TaskPart.REPORT))
    rows, new_rows = prepare(old.corpus, similarity), prepare(task.corpus, similarity)
    old_answers = _find_answers(task, truth, rows, truth.query_vectors)
    embedded_only = task._replace(unsampled_corpus=task.unsampled_corpus[:0])  # texts outside have no new vectors
    new_answers = _find_answers(embedded_only, truth, new_rows, task.queries)
    fit_old, fit_new = (prepare(points, similarity) for points in _select_fit_texts(task))

    def score_choice(bridge_and_answers: tuple[Bridge, _Answers]) -> float:
        answers = bridge_and_answers[1]
        # Without ground truth: the share kept of the old or the new neighbors, whichever is larger.
        values = answers.kept_shares(old_answers, new_answers) if answers.values is None else answers.values[None]
        return float(choose_statistic(values[:, choosing], np.ones((1, int(choosing.sum())))).max())

    candidates = fit_bridges(fit_new, fit_old, similarity)
    bridge, answers = max(
        ((candidate, _find_bridged_answers(task, candidate, rows)) for candidate in candidates), key=score_choice
    )
    groups = old.groups[parts == TaskPart.REPORT]
    kept_old = kept_new = scores = kept_score = None
    if answers.neighbors is not None:
        shares = answers.kept_shares(old_answers, new_answers)[:, reporting]
        kept_intervals = intervals(shares, groups, mean, old.seed)
        kept_old, kept_new = (KeptShare(interval.value, interval.low, interval.high) for interval in kept_intervals)
    if old_answers.values is not None and answers.values is not None and new_answers.values is not None:
        values = np.stack([old_answers.values, answers.values, new_answers.values])[:, reporting]
        all_scores = intervals(values, groups, report_statistic, old.seed)
        scores = dict(zip(("old", "bridged", "new"), all_scores, strict=True))
        # Intervals of shares of the new model's score; the new model is the baseline, so its own share is 1.
        statistic, unit = _share_of_first(report_statistic), 1.0
        if (new_score := scores["new"].value) > 0 and np.array_equal(values[1], values[2]):
            # No unit of the sample changed, but unseen groups may lose their score: the interval has to allow for that.
            statistic, unit = report_statistic, new_score
        new, bridged = intervals(values[[2, 1]], groups, statistic, old.seed)
        differences = (bridged.difference, bridged.difference_low, bridged.difference_high)
        kept_score = KeptShare(*((new.value + difference) / unit for difference in differences))
    return Upgrade(
        metric=old.judged_by, similarity=similarity, n=len(rows) + len(task.unsampled_corpus), sampled=len(rows),
        texts=task.texts, fit_texts=len(fit_old), choose_units=int(choosing.sum()), report_units=int(reporting.sum()),
        bridge=bridge.name, retain=retain, kept_old=kept_old, kept_new=kept_new, scores=scores, kept_score=kept_score,
    ), bridge  # fmt: skip


class _Answers(NamedTuple):
    """Scores and neighbors of the choose and report units, for the old, new or bridged vectors."""

    values: Numbers | None  # [j] by ground truth; None without
    neighbors: Indices | None  # [j, k] among texts that both models embedded; None if no queries are searched
    stored_neighbors: Indices | None  # [j, k] among all old vectors

    def kept_shares(self, old: "_Answers", new: "_Answers") -> Numbers:
        """Return the share of the old model's nearest texts that these answers hold, and of the new model's, [2, j].

        The old model's k nearest are among all old vectors, the new model's among the texts that both models embedded.
        """
        pairs = ((old.stored_neighbors, self.stored_neighbors), (new.neighbors, self.neighbors))
        matches = [expected[:, :, None] == held[:, None] for expected, held in pairs]  # type: ignore[index]
        return np.stack([match.any(2).mean(1) for match in matches])


def _find_answers(task: UpgradeTask, truth: Truth, rows: Floats, queries: NDArray[Any] | None) -> _Answers:
    """Search ``rows`` by ``queries``, or compare rows if the ground truth has no queries."""
    parts, similarity = task.old.parts, task.old.similarity
    space = StoredSpace(rows, VectorStorage.FLOAT32, similarity)
    prepared_queries = None if queries is None else prepare(queries, similarity)
    neighbors = truth.neighbors(space, prepared_queries, parts)
    has_truth = truth.kind is not TruthKind.COMPRESSION
    values = truth.values(space, neighbors, task.old.judged_by, parts) if has_truth else None
    if prepared_queries is None or not isinstance(truth, QueryTruth):
        return _Answers(values, neighbors=None, stored_neighbors=None)
    if not len(task.unsampled_corpus):
        return _Answers(values, neighbors, stored_neighbors=neighbors)
    stored_rows = np.concatenate([rows, prepare(task.unsampled_corpus, similarity)])
    tie_ranks = np.concatenate([truth.tie_ranks, np.arange(len(rows), len(stored_rows))])
    judged_queries = prepared_queries[parts != TaskPart.FIT]
    return _Answers(values, neighbors, nearest(judged_queries, stored_rows, DEPTH, similarity, tie_ranks))


def _find_bridged_answers(task: UpgradeTask, bridge: Bridge, rows: Floats) -> _Answers:
    """Search old rows [n, d] by new vectors mapped into their space: queries, judged rows, or first texts of pairs."""
    truth, queries = task.old.truth, None
    match truth:
        case PairTruth():
            truth = replace(truth, rows=np.add(truth.rows, [len(rows), 0]))
            rows = np.concatenate([rows, bridge.apply(task.corpus)])
        case LabelTruth():
            judged_rows, rows = truth.rows[task.old.parts != TaskPart.FIT], rows.copy()
            rows[judged_rows] = bridge.apply(task.corpus[judged_rows])
        case _ if task.queries is not None:
            queries = bridge.apply(task.queries)
    return _find_answers(task, truth, rows, queries)


def _select_fit_texts(task: UpgradeTask) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the old and the new vectors of the texts that are neither judged nor exact copies of judged ones."""
    truth, is_judged = task.old.truth, task.old.parts != TaskPart.FIT
    judged_texts = len(task.corpus) + is_judged.nonzero()[0]
    if isinstance(truth, PairTruth | LabelTruth):
        judged_texts = truth.rows[is_judged].ravel()
    old, new = (
        corpus if queries is None else np.concatenate([corpus, queries])
        for corpus, queries in ((task.old.corpus, truth.query_vectors), (task.corpus, task.queries))
    )
    copies = groups_of([*zip(number_vectors(old).tolist(), (-1 - number_vectors(new)).tolist(), strict=True)])
    is_fit = ~np.isin(copies, copies[judged_texts])
    return old[is_fit], new[is_fit]


def _share_of_first(statistic: Statistic) -> Statistic:
    """Return a statistic whose scores are those of ``statistic`` over the first variant's; 0 if that is not above 0."""

    def shares(values: Numbers, weights: Numbers) -> Numbers:
        scores = statistic(values, weights)
        return np.divide(scores, scores[:, :1], out=np.zeros_like(scores), where=scores[:, :1] > 0)

    return shares
