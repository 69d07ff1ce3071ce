"""The table of runs: what the URL asks for, what was found, and what they differ in."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import Depends, Query, Request

from app.context import Context, aria_sort, next_sort, offset_of, pages_of
from app.db.models import Run
from app.db.options.regularization import NAMES
from app.figures import palette
from app.figures.labels import head, inside
from app.results.labels import SCALES, MetricRange
from app.results.search.conditions import FIELDS, find_field
from app.results.search.listing import (
    NEWEST,
    Columns,
    Narrowing,
    Page,
    RunQuery,
    Summaries,
    find_runs,
    list_summaries,
    read_columns,
)
from app.results.sweep import cell_text, setting_of
from app.training.queue_status import list_workers, worker_lost
from isoscope.core.errors import InvalidError
from isotropy.catalog import Regularizer

WORDS = {"lam": "λ =", "zeta": "ζ ="}
ALWAYS = "lam"
"""The column that is there even if it does not vary: what a run is called by, and what leads to it."""
GREATEST_FIRST = ("performance", "isoscore_star", "launched")


@dataclass(frozen=True)
class RunTable:
    """A page of the runs that were found, or why none could be looked for."""

    base: str
    """Path of the page whose query says what is searched for."""
    back: str
    """How a button in the table says that it is on this page."""
    query: RunQuery
    page: Page
    columns: Columns
    lost: Collection[str]
    """Ids of runs whose worker is lost."""
    problem: InvalidError | None = None
    experiment_id: str = ""
    """Of the one that all of them belong to, where they were looked for there."""

    @property
    def bulk_query(self) -> str:
        """The query string by which an action on selected runs finds the way back."""
        return encoded(self.query, experiment=self.experiment_id).removeprefix("?")

    @property
    def runs(self) -> list[Run]:
        """The runs of this page."""
        return self.page.runs

    @property
    def pages(self) -> int:
        """How many pages there are, one at least."""
        return pages_of(self.page.total)

    @property
    def first(self) -> int:
        """Number of the first run of this page, from 1."""
        return offset_of(self.query.page) + 1

    @property
    def heads(self) -> list[str]:
        """The columns that tell runs apart."""
        varying = self.columns.varying
        return varying if ALWAYS in varying else [ALWAYS, *varying]

    @property
    def scale(self) -> MetricRange | None:
        """Name and range of the performance; None where it is not the same of all, or nothing was found."""
        metric = self.runs[0].config.metric if self.runs else None
        return SCALES[metric] if metric and "metric" not in self.columns.varying else None

    @property
    def evaluation_zeta(self) -> float | None:
        """ζ of the IsoScore★ of all runs; None where it is not the same of all."""
        known = self.runs and "evaluation_zeta" not in self.columns.varying
        return float(self.runs[0].config.evaluation_zeta or 0) if known else None

    @property
    def shared(self) -> list[str]:
        """What all found runs have in common, in words."""
        values = {name: self._first(name) for name in self.columns.shared if name != ALWAYS}
        if self.columns.plain and values.get("regularizer"):
            values["regularizer"] = f"{values['regularizer']} and its baselines"
        return [_said(name, value) for name, value in values.items() if value is not None]

    def _first(self, name: str) -> str | None:
        """The value of the first run to which it means something."""
        values = (self.value(run, name) for run in self.runs)
        return next((value for value in values if value not in (None, NAMES[Regularizer.NONE])), None)

    def head(self, name: str) -> str:
        """The heading of a column."""
        return head(name)

    def value(self, run: Run, name: str) -> str | None:
        """The cell of a run in a column; None where it means nothing to the run."""
        if name in ("experiment", "task"):
            return run.experiment.name if name == "experiment" else run.experiment.dataset.name
        if name in ("model", "seed"):
            return str(getattr(run, name))
        setting = setting_of(run, [] if name in ("regularizer", "lam", "zeta") else [name])
        if name == "regularizer":
            return NAMES[setting.regularizer]
        found = {"lam": setting.lam, "zeta": setting.zeta}.get(name) if not setting.values else setting.values[0]
        return None if found is None else cell_text(found)

    def name(self, run: Run) -> str:
        """A run in words, by what varies."""
        names = [*(name for name in self.heads if name != "seed"), "seed"]
        values = ((name, self.value(run, name)) for name in names)
        return ", ".join(_said(name, value) for name, value in values if value is not None)

    def colour(self, run: Run) -> str:
        """As in the figures: by λ, or where there are several regularizers by these."""
        (regularizer, lam, *_) = setting_of(run, [])
        if regularizer is Regularizer.NONE or "regularizer" not in self.columns.varying:
            return palette.of_lambda(lam)
        return palette.METHODS[regularizer]

    def url(self, page: int = 1, **changed: str) -> str:
        """The same table with something else in its URL, which holds only what is not so by itself."""
        return f"{self.base}{encoded(self.query._replace(page=page), **changed)}"

    def sorted_by(self, column: str) -> str:
        """The column's ``aria-sort``."""
        same = find_field(column) is find_field(self.query.sort)  # an alias names the same field
        return aria_sort(self.query.sort_key, self.query.sort if same else column)

    def sort_url(self, column: str) -> str:
        """The table sorted by the column, the other way round where it is already; empty where it cannot be."""
        if column not in FIELDS:
            return ""
        return self.url(sort=next_sort(column, self.sorted_by(column), falling=column in GREATEST_FIRST))


def encoded(query: RunQuery, **changed: str) -> str:
    """The query string with its question mark, or nothing."""
    said = urlencode({name: value for name, value in (given(query) | changed).items() if value})
    return f"?{said}" if said else ""


def given(query: RunQuery) -> dict[str, str]:
    """What differs from the usual, by its name in the URL."""
    said = {"q": query.q, "sort": query.sort_key, "page": str(query.page) if query.page > 1 else ""}
    return {name: value for name, value in said.items() if value}


def read_table(
    context: Context, query: RunQuery, base: str, *, back: str, experiment_id: str | None = None
) -> RunTable:
    """A page of the table, the last one where it has fewer; empty with the problem where the query cannot be read."""
    try:
        page = find_runs(context, query, experiment_id=experiment_id)
        if query.page > (last := pages_of(page.total)):
            query = query._replace(page=last)
            page = find_runs(context, query, experiment_id=experiment_id)
        columns = read_columns(context, query.q, experiment_id=experiment_id)
    except InvalidError as problem:
        return RunTable(base, back, query, Page([], 0), Columns([], [], live=False, plain=False), (), problem)
    workers = list_workers(context)
    lost = {run.id for run in page.runs if worker_lost(run, workers)}
    return RunTable(base, back, query, page, columns, lost, experiment_id=experiment_id or "")


def address(request: Request, page: str, query: RunQuery) -> dict[str, str]:
    """A header that has the address bar of a page around the table say what is shown, beside all else that it says."""
    now = urlsplit(request.headers.get("hx-current-url", ""))
    if now.path != page:
        return {}
    others = [(name, value) for name, value in parse_qsl(now.query) if name not in ("q", "sort", "page")]
    said = "&".join(part for part in (urlencode(others), encoded(query).removeprefix("?")) if part)
    return {"HX-Replace-Url": f"{page}?{said}" if said else page}


def _said(name: str, value: Any) -> str:
    if name in ("regularizer", "model"):
        return str(value)
    return f"{WORDS.get(name) or inside(name)} {value}"


class ExperimentListing(NamedTuple):
    """What is searched for, and what was found."""

    q: str
    found: Summaries
    page: int
    narrowed: Narrowing
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

    def sorted_by(self, column: str) -> str:
        """The column's ``aria-sort``."""
        return aria_sort(self.narrowed.order, column)

    def sort_url(self, column: str) -> str:
        """The list sorted by the column, the other way round where it is already."""
        order = next_sort(column, self.sorted_by(column), falling=column in GREATEST_FIRST)
        return self.url(1, order)

    @property
    def is_narrowed(self) -> bool:
        """Whether some experiments may be left out."""
        return bool(self.q or self.narrowed.tag)

    @property
    def query(self) -> str:
        """The query string of this page of the list."""
        return self.url(self.page).partition("?")[2]

    @property
    def sort(self) -> str:
        """The order as a URL has it: none where the newest are first."""
        return "" if self.narrowed.order == NEWEST else self.narrowed.order

    def url(self, page: int, order: str = "") -> str:
        """Another page of the same list, or the list in another order."""
        query = RunQuery.parse(self.q, "" if order == NEWEST else order or self.sort, page)
        return f"/experiments{encoded(query, tag=self.narrowed.tag)}"


def read_listing(context: Context, q: str, page: int, narrowed: Narrowing) -> ExperimentListing:
    """A page of the list, the last one where it has fewer; empty with the problem where ``q`` cannot be read."""
    try:
        found = list_summaries(context, q, narrowed, offset=offset_of(page))
    except InvalidError as problem:
        return ExperimentListing(q, Summaries([], 0), 1, narrowed, problem)
    listing = ExperimentListing(q, found, page, narrowed)
    return listing if page <= listing.pages else read_listing(context, q, listing.pages, narrowed)


def _runs(q: str = "", sort: str = "", page: Annotated[int, Query(ge=1)] = 1) -> RunQuery:
    return RunQuery.parse(q, sort, page)


RunQueryDep = Annotated[RunQuery, Depends(_runs)]
