"""Sentences that describe a calibration, and the NumPy code of its cutoffs."""

from dataclasses import replace
from math import ceil

from isotropy.catalog import SIMILARITIES, Similarity, format_percent, format_signed
from isotropy.catalog.calibration import CalibratedVariant, Cutoff, PairSource, PromiseKind, RandomSimilarity
from isotropy.tasks.bootstrap import LEVEL
from isotropy.tasks.decision import BASELINE
from isotropy.tasks.labeled_pairs import CUTOFF_PARTS
from isotropy.tasks.maps import NORMALIZE_CODE, RETURN_CODE, Map
from isotropy.tasks.parts import TaskPart
from isotropy.tasks.variants import Variant

CHOOSING_SHARE = CUTOFF_PARTS.count(TaskPart.CHOOSE) / len(CUTOFF_PARTS)
CHANCE_ERRORS = 0.9  # Sum of both error rates above which a cutoff is hardly better than a coin toss, whose sum is 1
MANY_FALSE_MATCHES = 0.5  # Share of non-matches above which a cutoff that misses few matches needs a warning
SHARE_WORDS = ("matches missed", "non-matches taken", "pairs taken match")
MAP_FILE = "map.safetensors"
# Replaces the code of a map where vectors are used as they are.
IDENTITY_CODE = """\
import numpy as np


def apply(x):  # [n, d], as they were encoded
    y = x.astype(np.float64)
"""
MATCHING_CODE = """\


def is_match(a, b):  # [n, d] each, both sides of n pairs
    return {rule}
"""


def describe_cutoffs(cutoffs: list[Cutoff], mapping: Map, source: PairSource) -> list[Cutoff]:
    """Return the cutoffs of a space with their sentences and the NumPy that applies them."""
    described = []
    for cutoff in cutoffs:
        if cutoff.cutoff is not None:
            sentence, code = _advise(cutoff, mapping, source), _cutoff_code(cutoff, mapping)
            described.append(replace(cutoff, sentence=sentence, code=code))
            continue
        labels, noun = source.independent_matches, "matches"
        if cutoff.kind is PromiseKind.FALSE_MATCH:
            labels, noun = source.independent_non_matches, "non-matches"
        needed = max(ceil(cutoff.labels_needed / CHOOSING_SHARE), labels + 1)
        sentence = (
            f"No cutoff can promise that {_promise_clause(cutoff)}. That takes about {needed:,} labeled {noun} "
            f"that share nothing, and there are {labels:,}."
        )
        possible_cutoffs = [entry for entry in cutoffs if entry.kind is cutoff.kind and entry.cutoff is not None]
        if possible_cutoffs:
            nearest = min(possible_cutoffs, key=lambda entry: entry.promise)
            sentence += f" {format_percent(nearest.promise)} can be promised, with {_cutoff_clause(nearest, mapping)}."
            sentence = " ".join([sentence, *_list_cautions(nearest)])
        described.append(replace(cutoff, sentence=sentence))
    return described


def describe_comparison(variants: list[CalibratedVariant], chosen: Variant, index: int, rate: float | None) -> str:
    """Say whether the chosen remedy, at ``index``, finds more matches on held-out pairs; a rate of None has no data."""
    if rate is None:
        return "There are too few labels to compare remedies."
    finding, baseline = variants[index].finding, variants[BASELINE].finding
    at_rate = f"at {format_percent(rate)} false matches"
    if index == BASELINE or finding is None or baseline is None:
        return f"No remedy clearly finds more matches {at_rate}."
    low, high = (format_signed(100 * end, 0) for end in (finding.difference_low, finding.difference_high))
    shares = f"you find {finding.report:.0%} of matches instead of {baseline.report:.0%} ({low} to {high} points)"
    doubt = " The gain was clear where it was chosen. Held-out pairs do not confirm it."
    return f"{chosen.action} first: {at_rate} {shares}.{'' if finding.difference_low > 0 else doubt}"


def describe_random_pairs(random: RandomSimilarity, similarity: Similarity) -> str:
    low, high = random.quantiles["0.05"], random.quantiles["0.95"]
    mean_clause = f"a {SIMILARITIES[similarity]} of {random.mean:.3g} on average"
    return f"Random pairs have {mean_clause}, 90% of them between {low:.3g} and {high:.3g}.".replace("-", "−")


def _advise(cutoff: Cutoff, mapping: Map, source: PairSource) -> str:
    rule = f"take pairs with {_cutoff_clause(cutoff, mapping)} as matches"
    action = rule[0].upper() + rule[1:]
    if mapping.variant != Variant():
        action = f"{mapping.variant.action}, then {rule}"
    sentences = [f"{action}: {_promise_clause(cutoff)}, with {LEVEL:.0%} confidence."]
    if cutoff.kind is PromiseKind.FALSE_MATCH and source.documents:
        sentences.append(f"For a query, that is up to {ceil(cutoff.promise * source.documents):,} other documents.")
    shares = [
        f"{format_percent(share.value)} of {share.pairs:,} {words} ({100 * share.low:.1f} to {100 * share.high:.1f}%)"
        for share, words in zip((cutoff.misses, cutoff.false_matches, cutoff.precision), SHARE_WORDS, strict=True)
        if share is not None
    ]
    sentences += [f"On held-out pairs: {', '.join(shares)}."] if shares else []
    return " ".join([*sentences, *_list_cautions(cutoff)])


def _list_cautions(cutoff: Cutoff) -> list[str]:
    if cutoff.misses and cutoff.false_matches and cutoff.misses.value + cutoff.false_matches.value > CHANCE_ERRORS:
        return ["That is hardly better than chance."]
    if cutoff.false_matches and cutoff.false_matches.value > MANY_FALSE_MATCHES:
        return ["Most non-matches are taken, too: limit them instead, or try another model."]
    return []


def _promise_clause(cutoff: Cutoff) -> str:
    verb = "matches are missed" if cutoff.kind is PromiseKind.MISS else "non-matches are taken"
    return f"at most {format_percent(cutoff.promise)} of {verb}"


def _cutoff_clause(cutoff: Cutoff, mapping: Map) -> str:
    side = "at most" if mapping.similarity is Similarity.EUCLIDEAN else "at least"
    return f"a {SIMILARITIES[mapping.similarity]} of {side} {cutoff.cutoff:.10g}".replace("-", "−")


def _cutoff_code(cutoff: Cutoff, mapping: Map) -> str:
    lines = mapping.numpy_code(MAP_FILE)
    if mapping.variant == Variant():
        scaling = NORMALIZE_CODE.format(name="y") if mapping.similarity is Similarity.COSINE else ""
        lines = IDENTITY_CODE + scaling + RETURN_CODE
    rule = f"(apply(a) * apply(b)).sum(1, dtype=np.float64) >= {cutoff.cutoff:.10g}"
    if mapping.similarity is Similarity.EUCLIDEAN:
        rule = f"np.linalg.norm(apply(a) - apply(b), axis=1) <= {cutoff.cutoff:.10g}"
    return lines + MATCHING_CODE.format(rule=rule)
