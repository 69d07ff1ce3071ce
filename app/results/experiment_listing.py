"""The list of experiments as its URL says: what is searched for, and which page."""

from typing import NamedTuple

from app.context import Context
from app.errors import InvalidError
from app.results.run_table import encoded
from app.routes.pages.paging import offset_of, pages_of
from app.services.experiment_list import Summaries, list_summaries
from app.services.run_search import RunQuery


class ExperimentListing(NamedTuple):
    """What is searched for, and what was found."""

    q: str
    found: Summaries
    page: int
    problem: InvalidError | None = None
    """Why nothing could be searched for."""

    @property
    def pages(self) -> int:
        """How many pages there are, one at least."""
        return pages_of(self.found.total)

    @property
    def first(self) -> int:
        """Number of the first experiment of this page, from 1."""
        return offset_of(self.page) + 1

    def url(self, page: int) -> str:
        """Another page of the same list."""
        return f"/experiments{encoded(RunQuery(self.q, page=page))}"


def read_listing(context: Context, q: str, page: int) -> ExperimentListing:
    """A page of the list, the last one where it has fewer; empty with the problem where ``q`` cannot be read."""
    try:
        found = list_summaries(context, q, offset=offset_of(page))
    except InvalidError as problem:
        return ExperimentListing(q, Summaries([], 0), 1, problem)
    listing = ExperimentListing(q, found, page)
    return listing if page <= listing.pages else read_listing(context, q, listing.pages)
