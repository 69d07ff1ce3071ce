"""Tabs of a page: each has an address, and only the one that is asked for is built."""

from collections.abc import Sequence
from typing import NamedTuple


class Tab(NamedTuple):
    """A part of a page."""

    slug: str
    """Its name in the address."""
    title: str
    path: str = ""
    """Behind the address of the page, where the part is a page of its own."""


def chosen_tab(tabs: Sequence[Tab], asked: str, usual: str = "") -> str:
    """Return the slug of the tab that is asked for; otherwise the usual one, or the first."""
    return asked if any(one.slug == asked and not one.path for one in tabs) else usual or tabs[0].slug
