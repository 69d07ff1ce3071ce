"""What addresses say, on pages and over the API, as dependencies of their routes."""

from typing import Annotated

from fastapi import Depends, Query

from app.db.models import Pooling
from app.embeddings.comparison import Choice
from app.embeddings.report import ReportQuery
from app.embeddings.shrinkage import ShrinkageQuery
from app.encodings.layers import LayersQuery
from app.figures.logged import WINDOWS
from app.figures.scatter import Look
from app.playground.figures import SHIFTED, PlaygroundQuery, PlaygroundView
from app.playground.grid import Position, nearest
from app.results.metrics import WATCHED
from app.results.statistics.estimate import Error
from app.results.tables.printed import MOST_DECIMALS, Style
from app.results.tables.summary import Shown
from app.services.across import AcrossQuery, TableQuery
from app.services.run_search import RunQuery
from app.services.sweep_figures import SweepQuery, View
from isotropy.catalog import MEASURES

Whole = Annotated[int, Query(ge=0, le=100_000)]


def _sweep(
    view: View = "both",
    seeds: bool = False,
    error: Error = Error.CI95,
    colour: str = "",
    measure: str = "",
    setting: Whole = 0,
    log: bool = False,
    smooth: Whole = 1,
) -> SweepQuery:
    look = Look(seeds, error, colour)
    watched = measure if measure in WATCHED else WATCHED[0]
    return SweepQuery(view, look, watched, setting, log, smooth if smooth in WINDOWS else 1)


SweepDep = Annotated[SweepQuery, Depends(_sweep)]


def _shrinkage(
    zeta: Annotated[float, Query(ge=0, le=1)] = 0.2, rows: int | None = None, source: str = "identity"
) -> ShrinkageQuery:
    return ShrinkageQuery(zeta, rows, source)


ShrinkageDep = Annotated[ShrinkageQuery, Depends(_shrinkage)]


def _layers(
    pooling: Pooling | None = None, measures: Annotated[list[str] | None, Query()] = None, by: str = ""
) -> LayersQuery:
    known = tuple(slug for slug in MEASURES if slug in (measures or []))
    return LayersQuery(pooling, known, by if by in MEASURES else "")


LayersDep = Annotated[LayersQuery, Depends(_layers)]


def _runs(q: str = "", sort: str = "", page: Annotated[int, Query(ge=1)] = 1) -> RunQuery:
    return RunQuery.of(q, sort, page)


RunQueryDep = Annotated[RunQuery, Depends(_runs)]


def _choice(
    id: Annotated[list[str] | None, Query()] = None,  # noqa: A002 - the name in the URL
    show: str = "",
) -> Choice:
    return Choice([one for one in id or [] if one], show == "differing")


ChoiceDep = Annotated[Choice, Depends(_choice)]


def _report(shrinkage: ShrinkageDep, name: Annotated[str | None, Query()] = None) -> ReportQuery:
    return ReportQuery(shrinkage, name)


ReportDep = Annotated[ReportQuery, Depends(_report)]


def _playground(
    shape: str = SHIFTED.shape,
    spread: Annotated[float, Query(allow_inf_nan=False)] = SHIFTED.spread,
    shift: Annotated[float, Query(allow_inf_nan=False)] = SHIFTED.shift,
    n: int = SHIFTED.n,
    view: PlaygroundView = "space",
) -> PlaygroundQuery:
    return PlaygroundQuery(nearest(Position(shape, spread, shift, n)), view)


PlaygroundDep = Annotated[PlaygroundQuery, Depends(_playground)]


def _table(columns: Shown = Shown.PERFORMANCE, decimals: str = "", bold: bool = True) -> TableQuery:
    known = decimals.isdecimal() and decimals.isascii() and int(decimals[:3]) <= MOST_DECIMALS
    return TableQuery(columns, Style(int(decimals) if known else None, bold))


TableDep = Annotated[TableQuery, Depends(_table)]


def _across(
    q: str = "",
    group: Annotated[list[str] | None, Query()] = None,
    on: str = "",
) -> AcrossQuery:
    return AcrossQuery(q.strip(), tuple(group or ()), on)


AcrossDep = Annotated[AcrossQuery, Depends(_across)]

MeasureQuery = Annotated[str, Query()]
