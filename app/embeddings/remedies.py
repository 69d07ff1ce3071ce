"""The remedies of an embedding, ranked by their score on its task."""

from typing import NamedTuple
from urllib.parse import urlencode

from app.context import Context
from app.db.models import Embedding
from app.db.task import JudgedVariant, TaskResults
from app.embeddings.decision import find_deciding_task
from isotropy.catalog import FINDINGS, METHODS, METRICS, format_signed


class Remedy(NamedTuple):
    """A row of the table of remedies."""

    name: str
    meaning: str  # What the method does; empty if the variant has none
    query: str  # Query of its settings in the lab; empty if the lab does not offer it
    variant: JudgedVariant | None  # Its scores; None if no task judged it
    is_chosen: bool


def rank_remedies(results: TaskResults | None) -> list[Remedy]:
    """Return the baseline, the variants by their score on the choose part, then methods that were not judged."""
    variants = [] if results is None else results.variants
    # The baseline is the first variant.
    positions = sorted(range(len(variants)), key=lambda position: (position > 0, -variants[position].choose.value))
    judged = [
        _make_remedy(variants[position], is_chosen=results is not None and position == results.chosen)
        for position in positions
    ]
    judged_methods = {variant.method for variant in variants}
    return judged + [
        Remedy(method.name, method.meaning, urlencode({"method": slug}), variant=None, is_chosen=False)
        for slug, method in METHODS.items()
        if slug not in judged_methods
    ]


def describe_trial(results: TaskResults | None, method: str) -> str:
    """Describe the score of a method's best variant in float32 with all dimensions; empty if none was judged."""
    variants = [] if results is None else results.variants
    settings = (method, "all", "float32")
    candidates = [variant for variant in variants if (variant.method, variant.dimensions, variant.storage) == settings]
    if results is None or not candidates:
        return ""
    report = max(candidates, key=lambda variant: variant.choose.value).report
    verdict = "no clear gain"
    if report.difference_low > 0:
        verdict = "better"
    elif report.difference_high < 0:
        verdict = "worse"
    difference, low, high = map(format_signed, (report.difference, report.difference_low, report.difference_high))
    change = f"{verdict}, {difference} {METRICS[results.metric]} ({low} to {high})"
    return f"{METHODS[method].name}, tried on your ground truth: {change}."


def find_remedy(context: Context, embedding: Embedding) -> str:
    """Return the lab's query for the remedy that the deciding task chose, else for the worst finding; else empty."""
    task = find_deciding_task(context, embedding.id)
    chosen = [remedy.query for remedy in rank_remedies(None if task is None else task.results) if remedy.is_chosen]
    methods = [FINDINGS[finding["slug"]].method for finding in embedding.findings if finding["slug"] in FINDINGS]
    queries = [*chosen, *(urlencode({"method": method}) for method in methods if method)]
    return next(filter(None, queries), "")


def _make_remedy(variant: JudgedVariant, *, is_chosen: bool) -> Remedy:
    method = METHODS.get(variant.method)
    name = variant.name[0].upper() + variant.name[1:]
    if method is None:
        return Remedy(name, meaning="", query="", variant=variant, is_chosen=is_chosen)
    query = urlencode({"method": variant.method, **variant.parameters})
    return Remedy(name, method.meaning, query, variant, is_chosen)
