"""The record by which a feature tells what the dashboard serves of it."""

from typing import NamedTuple


class Feature(NamedTuple):
    """A feature's routers and lists, each by ``module:name``, so that a record is light to import."""

    api: tuple[str, ...]
    pages: tuple[str, ...]
    row_lists: tuple[str, ...] = ()
    """Lists whose rows have actions on several at once."""
