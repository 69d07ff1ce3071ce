"""The routers and lists that a feature adds to the dashboard."""

from typing import NamedTuple


class Feature(NamedTuple):
    """A feature's routers and lists, each as ``module:name``, so that importing the record loads nothing else."""

    api: tuple[str, ...]
    pages: tuple[str, ...]
    row_lists: tuple[str, ...] = ()
    """Lists with actions on several rows at once."""
