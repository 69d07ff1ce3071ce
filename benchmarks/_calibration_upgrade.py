"""Cases of the intervals and verdicts of ``isoscope upgrade``: generated models judged by new queries, and real ones.

Real models are judged on SQuAD's questions, drawn with replacement, and compared with all questions that their bridge
is not fitted on.
"""

from dataclasses import replace
from functools import cache, partial

import numpy as np

from benchmarks._calibration import Case, coverage
from benchmarks._calibration_tasks import DIMENSIONS, DOCUMENTS, N_FRESH, Points, draw_corpus, draw_queries
from benchmarks._encoded_texts import DATA, Questions, read_squad
from isotropy.catalog import Similarity
from isotropy.tasks.bootstrap import Interval
from isotropy.tasks.bridges import Bridge
from isotropy.tasks.judge import JudgingTask
from isotropy.tasks.parts import TaskPart
from isotropy.tasks.search import Indices, prepare
from isotropy.tasks.truth import DEPTH, QueryTruth, exact_neighbors
from isotropy.tasks.upgrade import KeptShare, Upgrade, UpgradeTask, judge_upgrade

SIMULATIONS = 1000
NEW_DIMENSIONS = 12
RIGHT, MIN_RIGHT = "the verdict is right", 0.95
IDS = [str(row) for row in range(DOCUMENTS)]
REAL = ("MiniLM layer 4 to 6", "MiniLM rotated", "MiniLM to PCA-192", "MiniLM to word2vec")


def _embed(random: np.random.Generator, old: Points, model: Points, noise: float) -> Points:
    """Return new vectors of texts with old vectors [n, d]: fewer dimensions, other directions and some noise."""
    return (old @ model + noise * random.standard_normal((len(old), model.shape[1]))).astype(np.float32)


def _nearest(queries: Points, rows: Points) -> Indices:
    """Return the ten nearest rows of many queries, best first; vectors without ties need no exact search."""
    q, x = (prepare(points, Similarity.COSINE) for points in (queries, rows))
    products = q @ x.T
    neighbors = np.argpartition(-products, DEPTH, axis=1)[:, :DEPTH]
    order = np.argsort(-np.take_along_axis(products, neighbors, axis=1), axis=1)
    return np.take_along_axis(neighbors, order, axis=1)


def _mean_gain(neighbors: Indices, relevant: Indices) -> float:
    """Return nDCG of one relevant document per query, in closed form."""
    return float(((neighbors == relevant[:, None]) / np.log2(np.arange(2, DEPTH + 2))).sum(1).mean())


def _measure(upgrade: Upgrade, bridge: Bridge, old: Questions, new: Questions) -> Upgrade:
    """Return the upgrade with the exact values of many questions in place of its intervals."""
    searches = (old[:2], (old.paragraphs, bridge.apply(new.questions)), new[:2])
    neighbors = [_nearest(questions, paragraphs) for paragraphs, questions in searches]
    gains = [_mean_gain(rows, old.relevant) for rows in neighbors]
    shares = [float((rows[:, :, None] == neighbors[1][:, None]).any(2).mean()) for rows in neighbors[::2]]
    kept_old, kept_new, kept_score = (KeptShare(*[share] * 3) for share in (*shares, gains[1] / gains[2]))
    scores = upgrade.scores and {
        name: Interval(*[gain] * 3, *[gain - gains[0]] * 3) for name, gain in zip(upgrade.scores, gains, strict=True)
    }
    return replace(upgrade, kept_old=kept_old, kept_new=kept_new, scores=scores, kept_score=kept_score)


def _covers(judged: Upgrade, measured: Upgrade, share: str) -> bool:
    interval = getattr(judged, share)
    return bool(interval.low <= getattr(measured, share).value <= interval.high)


def covers(random: np.random.Generator, share: str, documents: int, size: int, noise: float) -> bool:
    """Return whether the interval of a kept share covers the share on new queries for the same corpus and bridge."""
    corpus = draw_corpus(random)
    model = random.standard_normal((DIMENSIONS, NEW_DIMENSIONS)).astype(np.float32)
    new_corpus = _embed(random, corpus, model, noise)
    queries, relevant = draw_queries(random, corpus, documents, size)
    fresh_queries, fresh_relevant = draw_queries(random, corpus, N_FRESH, size)
    new_queries, new_fresh_queries = (_embed(random, q, model, noise) for q in (queries, fresh_queries))
    truth = exact_neighbors(corpus, queries, IDS, Similarity.COSINE)
    if share == "kept_score" or size > 1:
        truth = QueryTruth(queries, [{row: 1} for row in relevant.tolist()], IDS)
    old = JudgingTask(corpus, truth, seed=int(random.integers(2**31)))
    upgrade, bridge = judge_upgrade(
        UpgradeTask(old, new_corpus, new_queries, texts=DOCUMENTS, unsampled_corpus=corpus[:0])
    )
    old_fresh = Questions(corpus, fresh_queries, fresh_relevant)
    new_fresh = Questions(new_corpus, new_fresh_queries, fresh_relevant)
    return _covers(upgrade, _measure(upgrade, bridge, old_fresh, new_fresh), share)


@cache
def read_models(name: str) -> tuple[Questions, Questions]:
    """Return SQuAD by the old and the new model of ``REAL``."""
    last = read_squad()
    if name == "MiniLM layer 4 to 6":
        return read_squad("minilm-4"), last
    if name == "MiniLM to word2vec":
        return last, read_squad("word2vec")
    if name == "MiniLM rotated":
        matrix = np.linalg.qr(np.random.default_rng(0).standard_normal((384, 384)))[0]
    else:
        matrix = np.linalg.svd(last.paragraphs.astype(np.float64), full_matrices=False)[2][:192].T
    paragraphs, questions = ((points @ matrix).astype(np.float32) for points in last[:2])
    return last, Questions(paragraphs, questions, last.relevant)


@cache  # the interval and the verdict are of the same draws
def judge_models(name: str, paragraphs: int, seed: int, *, qrels: bool) -> tuple[Upgrade, Upgrade]:
    """Return the upgrade judged on drawn paragraphs' questions, and measured on all that do not fit its bridge."""
    models = read_models(name)
    (corpus, questions, relevant), new = models
    rows, groups = models[0].draw(np.random.default_rng(seed), paragraphs)
    ids = [str(row) for row in range(len(corpus))]
    if qrels:
        truth = QueryTruth(questions[rows], [{int(row): 1} for row in relevant[rows]], ids, groups)
    else:
        truth = exact_neighbors(corpus, questions[rows], ids, Similarity.COSINE, groups)
    old = JudgingTask(corpus, truth, seed=seed)
    task = UpgradeTask(old, new.paragraphs, new.questions[rows], texts=len(corpus), unsampled_corpus=corpus[:0])
    upgrade, bridge = judge_upgrade(task)
    is_fit = old.parts == TaskPart.FIT
    fresh = np.delete(np.arange(len(questions)), np.setdiff1d(rows[is_fit], rows[~is_fit]))
    fresh_models = (Questions(model.paragraphs, model.questions[fresh], relevant[fresh]) for model in models)
    return upgrade, _measure(upgrade, bridge, *fresh_models)


def covers_real(random: np.random.Generator, share: str, name: str, paragraphs: int, *, qrels: bool) -> bool:
    return _covers(*judge_models(name, paragraphs, int(random.integers(2**31)), qrels=qrels), share)


def is_verdict_right(random: np.random.Generator, name: str, paragraphs: int, *, qrels: bool) -> bool:
    """Return whether the verdict is the one that the measured values give."""
    judged, measured = judge_models(name, paragraphs, int(random.integers(2**31)), qrels=qrels)
    return judged.verdict == measured.verdict


def cases() -> list[Case]:
    """Return the cases of what a bridge keeps."""
    designs = {
        "kept of the old, 300 queries, noise 0.5": ("kept_old", 300, 1, 0.5),
        "kept of the old, 100 queries, noise 0.05": ("kept_old", 100, 1, 0.05),
        "kept of the new, 300 queries, noise 0.5": ("kept_new", 300, 1, 0.5),
        "kept of the old, 150 groups of 1 to 7 queries": ("kept_old", 150, 4, 0.5),
        "kept of the score, 300 queries, noise 0.5": ("kept_score", 300, 1, 0.5),
    }
    generated = [
        coverage(
            f"upgrade, {name}",
            partial(covers, share=share, documents=documents, size=size, noise=noise),
            SIMULATIONS,
            conservative=share == "kept_score",
        )
        for name, (share, documents, size, noise) in designs.items()
    ]
    real: list[Case] = []
    for name in REAL if DATA else ():
        for qrels, paragraphs, shares in ((True, 100, ["score"]), (False, 200, ["old", "new"])):
            prefix = f"upgrade, {name}, {paragraphs} paragraphs"
            covers_share = partial(covers_real, name=name, paragraphs=paragraphs, qrels=qrels)
            is_right = partial(is_verdict_right, name=name, paragraphs=paragraphs, qrels=qrels)
            real += [
                coverage(f"{prefix}: kept of the {share}", partial(covers_share, share=f"kept_{share}"), SIMULATIONS,
                         conservative=qrels or name == "MiniLM rotated")  # a rotation keeps all: each interval covers 1
                for share in shares
            ]  # fmt: skip
            verdict_name = f"{prefix}: verdict by {'qrels' if qrels else 'neighbors'}"
            real.append(Case(verdict_name, RIGHT, MIN_RIGHT, 1.0, SIMULATIONS, is_right))
    return [*generated, *real]
