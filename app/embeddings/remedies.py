"""The remedies of an embedding as one ranked table: what each scores by its task, and where its sliders are."""

from typing import NamedTuple
from urllib.parse import urlencode

from app.context import Context
from app.db.models import Embedding
from app.db.task import JudgedVariant, TaskResults
from app.embeddings.decision import find_deciding_task
from isotropy.catalog import FINDINGS, METHODS


class Remedy(NamedTuple):
    """A row of the table."""

    name: str
    meaning: str
    """What the method does; empty of vectors as they are and of fewer dimensions."""
    query: str
    """Of its sliders in the lab; empty where it has none."""
    variant: JudgedVariant | None
    """None where no task judged it."""
    is_chosen: bool


def rank_remedies(results: TaskResults | None) -> list[Remedy]:
    """Return the judged variants, the highest score on the choose part first, then methods that were not judged."""
    variants = [] if results is None else results.variants
    positions = sorted(range(len(variants)), key=lambda position: -variants[position].choose.value)
    judged = [
        _judged(variants[position], is_chosen=results is not None and position == results.chosen)
        for position in positions
    ]
    tried = {variant.method for variant in variants}
    return judged + [
        Remedy(method.name, method.meaning, urlencode({"method": slug}), None, is_chosen=False)
        for slug, method in METHODS.items()
        if slug not in tried
    ]


def find_remedy(context: Context, embedding: Embedding) -> str:
    """Return the query of the remedy that the deciding task chose, else of the worst finding; empty without one."""
    task = find_deciding_task(context, embedding.id)
    chosen = [remedy.query for remedy in rank_remedies(None if task is None else task.results) if remedy.is_chosen]
    methods = [FINDINGS[finding["slug"]].method for finding in embedding.findings if finding["slug"] in FINDINGS]
    queries = [*chosen, *(urlencode({"method": method}) for method in methods if method)]
    return next(filter(None, queries), "")


def _judged(variant: JudgedVariant, *, is_chosen: bool) -> Remedy:
    method = METHODS.get(variant.method)
    name = variant.name[0].upper() + variant.name[1:]
    if method is None:
        return Remedy(name, "", "", variant, is_chosen)
    query = urlencode({"method": variant.method, **variant.parameters})
    return Remedy(name, method.meaning, query, variant, is_chosen)
