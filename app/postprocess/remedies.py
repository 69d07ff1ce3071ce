"""The remedies of an embedding as one ranked table: what each scores by its task, and where its sliders are."""

from typing import NamedTuple
from urllib.parse import urlencode

from app.db.task import JudgedVariant, TaskResults
from isotropy.catalog import METHODS


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


def _judged(variant: JudgedVariant, *, is_chosen: bool) -> Remedy:
    method = METHODS.get(variant.method)
    name = variant.name[0].upper() + variant.name[1:]
    if method is None:
        return Remedy(name, "", "", variant, is_chosen)
    query = urlencode({"method": variant.method, **variant.parameters})
    return Remedy(name, method.meaning, query, variant, is_chosen)
