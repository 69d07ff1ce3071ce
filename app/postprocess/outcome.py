"""What a method did to rows that it has not seen, in a sentence or two."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from app.numerals import number, two_decimals
from app.postprocess.trial import Comparison


class Told(NamedTuple):
    """How a measure is told: its name in a sentence, its numbers, and whether its ups and downs need a judgement."""

    noun: str
    say: Callable[[float], str] = number
    judged: bool = False


SHAPE = {
    "isoscore": Told("IsoScore"),
    "mean_cosine": Told("the mean cosine", two_decimals),
    "partition_log": Told("the partition function's logarithm", judged=True),
}
LABELS = {"silhouette": Told("the silhouette of the labels")}


def outcome_of(method: str, comparisons: Sequence[Comparison]) -> str:
    """Say what became of the shape and of the labels; what is undefined before or after is left out."""
    shape = _clauses(SHAPE, comparisons)
    told = [f"On rows that {method} has not seen, {'; '.join(shape)}."] if shape else []
    told += [f"{one[0].upper()}{one[1:]}." for one in _clauses(LABELS, comparisons)]
    return " ".join(told)


def _clauses(measures: dict[str, Told], comparisons: Sequence[Comparison]) -> list[str]:
    found = {one.measure.slug: one for one in comparisons if one.change is not None}
    return [_clause(told, found[slug]) for slug, told in measures.items() if slug in found]


def _clause(told: Told, one: Comparison) -> str:
    before, after = (told.say(found.value or 0.0) for found in (one.before, one.after))
    if before == after:
        return f"{told.noun} stays at {after}"
    rises = one.change is not None and one.change.value > 0
    if told.judged:
        better = rises == (one.measure.higher_means == "more isotropic")
        return f"{told.noun} gets {'better' if better else 'worse'}, from {before} to {after}"
    return f"{told.noun} {'rises' if rises else 'falls'} from {before} to {after}"
