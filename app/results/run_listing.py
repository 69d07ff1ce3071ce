"""Lists of runs and experiments: queries from the URL, pages of results, and links."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import Depends, Query, Request

from app.context import Context, aria_sort, count_pages, next_sort, read_page
from app.db.models import Run
from app.db.options.regularization import REGULARIZER_NAMES
from app.figures import palette
from app.figures.labels import field_heading, field_in_sentence
from app.results.labels import METRIC_AXES, MetricAxis
from app.results.run_table import cell_text, setting_of
from app.results.search.conditions import FIELDS, find_field
from app.results.search.listing import (
    NEWEST,
    ExperimentFilter,
    ExperimentOrder,
    ExperimentPage,
    RunColumns,
    RunPage,
    RunQuery,
    list_experiments,
    list_runs,
    read_columns,
)
from app.training.queue_status import has_lost_worker, list_workers
from app.web.dependencies import ContextDep, PageNumber
from isoscope.core.errors import InvalidError
from isotropy.catalog import Regularizer

SIGNS = {"lam": "λ =", "zeta": "ζ ="}
# This column is visible even if it does not vary, because it links to the run.
LINK_COLUMN = "lam"
LARGEST_FIRST = ("performance", "isoscore_star", "launched")


@dataclass(frozen=True)
class RunListing:
    """A page of runs, or why the search for them failed."""

    page_path: str
    """Path of the page whose URL has the search."""
    back: str
    """Name of that page for buttons that lead back to it: across or runs."""
    query: RunQuery
    page: RunPage
    columns: RunColumns
    lost_run_ids: Collection[str]
    problem: InvalidError | None = None
    experiment_id: str = ""
    """The experiment to which the search is restricted; empty for a search of all runs."""

    @property
    def bulk_query(self) -> str:
        """Return the search as a query string for actions on all runs that it finds."""
        return encode_query(self.query, experiment=self.experiment_id).removeprefix("?")

    @property
    def runs(self) -> list[Run]:
        return self.page.runs

    @property
    def pages(self) -> int:
        return count_pages(self.page.total)

    @property
    def heads(self) -> list[str]:
        varying = self.columns.varying
        return varying if LINK_COLUMN in varying else [LINK_COLUMN, *varying]

    @property
    def metric_axis(self) -> MetricAxis | None:
        """Return the title and range of the metric; None if runs have different metrics or nothing matches."""
        metric = self.runs[0].config.metric if self.runs else None
        return METRIC_AXES[metric] if metric and "metric" not in self.columns.varying else None

    @property
    def evaluation_zeta(self) -> float | None:
        """Return ζ of the IsoScore★ of all runs; None if it differs or nothing matches."""
        is_shared = self.runs and "evaluation_zeta" not in self.columns.varying
        return float(self.runs[0].config.evaluation_zeta or 0) if is_shared else None

    @property
    def shared_settings(self) -> list[str]:
        """Describe the settings that all runs share, such as "batch size 16"."""
        empty_cells = (None, REGULARIZER_NAMES[Regularizer.NONE])
        descriptions = []
        for name in self.columns.shared:
            cells = (self.cell(run, name) for run in self.runs)
            value = next((cell for cell in cells if cell not in empty_cells), None)
            if name == LINK_COLUMN or value is None:
                continue
            if name == "regularizer" and self.columns.has_baselines:
                value = f"{value} and its baselines"
            descriptions.append(_label_value(name, value))
        return descriptions

    head = staticmethod(field_heading)

    def cell(self, run: Run, name: str) -> str | None:
        """Return the cell of a run in a column; None if the setting has no effect on the run."""
        if name in ("experiment", "task"):
            return run.experiment.name if name == "experiment" else run.experiment.dataset.name
        if name in ("model", "seed"):
            return str(getattr(run, name))
        if name == "regularizer":
            return REGULARIZER_NAMES[setting_of(run, []).regularizer]
        if name in ("lam", "zeta"):
            value = getattr(setting_of(run, []), name)
        else:
            (value,) = setting_of(run, [name]).values
        return None if value is None else cell_text(value)

    def label(self, run: Run) -> str:
        names = [*(name for name in self.heads if name != "seed"), "seed"]
        values = ((name, self.cell(run, name)) for name in names)
        return ", ".join(_label_value(name, value) for name, value in values if value is not None)

    def color(self, run: Run) -> str:
        """Return the color of a run as in figures: by regularizer if several are compared, else and at λ = 0 by λ."""
        setting = setting_of(run, [])
        if setting.is_baseline or "regularizer" not in self.columns.varying:
            return palette.lambda_color(setting.lam)
        return palette.METHODS[setting.regularizer]

    def url(self, page: int = 1, **changed: str) -> str:
        """Return the URL of the list with changed parameters. Defaults are omitted."""
        return f"{self.page_path}{encode_query(self.query._replace(page=page), **changed)}"

    def aria_sort(self, column: str) -> str:
        is_sort_column = find_field(column) is find_field(self.query.sort)  # an alias names the same field
        return aria_sort(self.query.sort_key, self.query.sort if is_sort_column else column)

    def sort_url(self, column: str) -> str:
        if column not in FIELDS:
            return ""
        return self.url(sort=next_sort(column, self.aria_sort(column), descending_first=column in LARGEST_FIRST))


def encode_query(query: RunQuery, **changed: str) -> str:
    """Return the parameters that differ from the defaults as a query string with a question mark, or nothing."""
    parameters = {"q": query.q, "sort": query.sort_key, "page": str(query.page) if query.page > 1 else ""} | changed
    encoded = urlencode({name: value for name, value in parameters.items() if value})
    return f"?{encoded}" if encoded else ""


def read_run_listing(
    context: Context, query: RunQuery, page_path: str, *, back: str, experiment_id: str | None = None
) -> RunListing:
    """Return a page of runs, or the last page if there are fewer; empty with the problem if the query is invalid."""
    try:
        runs, page, _ = read_page(
            lambda offset: list_runs(context, query, offset=offset, experiment_id=experiment_id), query.page
        )
        columns = read_columns(context, query.q, experiment_id=experiment_id)
    except InvalidError as problem:
        return RunListing(
            page_path, back, query, RunPage([], 0), RunColumns([], [], is_live=False, has_baselines=False), (), problem
        )
    workers = list_workers(context)
    lost_ids = {run.id for run in runs.runs if has_lost_worker(run, workers)}
    query = query._replace(page=page)
    return RunListing(page_path, back, query, runs, columns, lost_ids, experiment_id=experiment_id or "")


def address_header(request: Request, path: str, query: RunQuery) -> dict[str, str]:
    """Return a header that puts the query of a list into the browser's address bar; empty if it shows another path."""
    address = urlsplit(request.headers.get("hx-current-url", ""))
    if address.path != path:
        return {}
    parameters = [(name, value) for name, value in parse_qsl(address.query) if name not in ("q", "sort", "page")]
    encoded = "&".join(filter(None, (urlencode(parameters), encode_query(query).removeprefix("?"))))
    return {"HX-Replace-Url": f"{path}?{encoded}" if encoded else path}


def _label_value(name: str, value: Any) -> str:
    if name in ("regularizer", "model"):
        return str(value)
    return f"{SIGNS.get(name) or field_in_sentence(name)} {value}"


class ExperimentListing(NamedTuple):
    """A page of experiments, and the search for them. The problem is why the search failed."""

    q: str
    summaries: ExperimentPage
    page: int
    criteria: ExperimentFilter
    problem: InvalidError | None = None

    @property
    def pages(self) -> int:
        return count_pages(self.summaries.total)

    def aria_sort(self, column: str) -> str:
        return aria_sort(self.criteria.order, column)

    def sort_url(self, column: str) -> str:
        return self.url(1, next_sort(column, self.aria_sort(column), descending_first=column in LARGEST_FIRST))

    @property
    def bulk_query(self) -> str:
        return self.url(self.page).partition("?")[2]

    @property
    def sort(self) -> str:
        """Return the order for a URL: empty if the newest come first."""
        return "" if self.criteria.order == NEWEST else self.criteria.order

    def url(self, page: int, order: str = "") -> str:
        """Return the URL of another page of the list, or of the list in another order."""
        query = RunQuery.parse(self.q, "" if order == NEWEST else order or self.sort, page)
        return f"/experiments{encode_query(query, tag=self.criteria.tag)}"


def read_experiment_listing(
    context: ContextDep,
    q: str = "",
    page: PageNumber = 1,
    tag: Annotated[str, Query(max_length=200)] = "",
    sort: ExperimentOrder = NEWEST,
) -> ExperimentListing:
    """Return a page of the list, or the last page if there are fewer; empty with the problem if ``q`` is invalid."""
    q, criteria = q.strip(), ExperimentFilter(tag.strip(), sort)
    try:
        summaries, page, _ = read_page(lambda offset: list_experiments(context, q, criteria, offset=offset), page)
    except InvalidError as problem:
        return ExperimentListing(q, ExperimentPage([], 0), 1, criteria, problem)
    return ExperimentListing(q, summaries, page, criteria)


ListingDep = Annotated[ExperimentListing, Depends(read_experiment_listing)]


def _parse_run_query(q: str = "", sort: str = "", page: PageNumber = 1) -> RunQuery:
    return RunQuery.parse(q, sort, page)


RunQueryDep = Annotated[RunQuery, Depends(_parse_run_query)]
