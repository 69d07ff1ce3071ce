"""Reference values: what known clouds score on every measure, each with its rows and dimensions."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

TABLE = "reference_values.json"
"""Made by ``python -m benchmarks.reference_values``."""


class ReferenceValue(NamedTuple):
    """A measure of a known cloud."""

    value: float
    se: float | None
    n: int
    """Rows behind the value: fewer than the cloud's where the measure takes a sample."""


class Reference(NamedTuple):
    """A known cloud: values depend on its rows and dimensions, so they stand beside them."""

    name: str
    about: str
    n: int
    d: int
    values: Mapping[str, ReferenceValue]
    """By the slug of the measure; without those that are undefined of it."""


@cache
def references() -> tuple[Reference, ...]:
    """Return the clouds in the order in which to show them: generated ones, then the bundled encoder by layer."""
    table = json.loads(files("isotropy.catalog").joinpath(TABLE).read_text(encoding="utf-8"))
    return tuple(
        Reference(**one | {"values": {slug: ReferenceValue(*found) for slug, found in one["values"].items()}})
        for one in table
    )
