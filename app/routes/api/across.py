"""Runs of any experiments read together, over the API."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from app.dependencies import ContextDep
from app.results.tables.printed import MOST_DECIMALS, Style
from app.results.tables.settings import settings
from app.results.tables.summary import Shown
from app.results.tables.texts import MEDIA_TYPES, Kind, text_of
from app.routes.api.schemas.across import (
    ColumnOut,
    ConclusionOfRunsOut,
    DifferingOut,
    EqualOut,
    GroupOut,
    MomentsOut,
    RunTableOut,
    SettingsOut,
    SideOut,
)
from app.routes.api.schemas.conclusion import ConclusionOut
from app.routes.api.schemas.figures import FigureOut
from app.routes.queries import SweepDep
from app.services.across import choose_runs, summarise
from app.services.across_figures import (
    cautions,
    conclude_across,
    measured_in_words,
    measured_on,
    offered_of,
    on_of,
    read_across,
)

router = APIRouter(prefix="/compare/runs", tags=["runs"])

Search = Annotated[
    str, Query(description="Words and conditions such as `task:cola lam<0 iso>0.2`; all runs without one.")
]
Group = Annotated[
    list[str] | None,
    Query(
        description="Fields that groups are made of: task, experiment, model, regularizer, lam, zeta, seed or a "
        "training option or a setting that scripts said; without one, all that varies but tasks and seeds."
    ),
]
On = Annotated[
    str,
    Query(
        description="Data set and metric as `<id of the data set>.<metric>`, since performance is comparable on one "
        "alone; without it, those on which the most runs have finished."
    ),
]
TEXTS: dict[str, Kind] = {"markdown": "md", "latex": "tex", "csv": "csv"}
AS_TEXT: dict[str, Any] = {"content": {media: {"schema": {"type": "string"}} for media in MEDIA_TYPES.values()}}


@router.get("/table", response_model=RunTableOut, responses={200: AS_TEXT})
def show_table(
    context: ContextDep,
    q: Search = "",
    group: Group = None,
    columns: Annotated[Shown, Query(description="What the columns are, each for every data set.")] = Shown.PERFORMANCE,
    format: Annotated[  # noqa: A002 - the name in the URL
        Literal["json", "markdown", "latex", "csv"], Query(description="JSON and CSV are unrounded.")
    ] = "json",
    decimals: Annotated[
        int | None,
        Query(ge=0, le=MOST_DECIMALS, description="Of Markdown and LaTeX; without it, as the deviations allow."),
    ] = None,
    bold: Annotated[bool, Query(description="Whether the greatest mean of a column is bold, but for isotropy.")] = True,
) -> Response | RunTableOut:
    """Means and standard deviations of groups of runs, as a paper prints them or as numbers."""
    chosen = choose_runs(context, q, group or ())
    found = summarise(context, chosen, columns)
    if format == "json":
        return RunTableOut(
            runs=len(chosen.gathered.runs),
            total=chosen.total,
            groups=chosen.fields,
            columns=[ColumnOut(dataset=one.dataset, measure=one.measure) for one in found.columns],
            rows=[
                GroupOut(group=row.labels, cells=[None if one is None else MomentsOut.of(one) for one in row.cells])
                for row in found.rows
            ],
            notes=found.notes,
        )
    kind = TEXTS[format]
    return Response(text_of(found, kind, Style(decimals, bold)), media_type=MEDIA_TYPES[kind])


@router.get("/settings")
def show_settings(context: ContextDep, q: Search = "") -> SettingsOut:
    """The settings in which runs differ, side by side, and those that are the same for all of them."""
    chosen = choose_runs(context, q)
    found = settings(chosen.gathered)
    return SettingsOut(
        runs=len(chosen.gathered.runs),
        total=chosen.total,
        sides=[SideOut(**side._asdict()) for side in found.sides],
        left_out=found.left_out,
        differing=[DifferingOut(field=field, values=values) for field, values in found.differing.items()],
        equal=[EqualOut(field=field, value=value) for field, value in found.equal.items()],
    )


@router.get("/conclusion")
def show_conclusion(context: ContextDep, q: Search = "", group: Group = None, on: On = "") -> ConclusionOfRunsOut:
    """Whether performance goes with isotropy over the runs of a search, and each lambda against lambda = 0."""
    chosen = choose_runs(context, q, group or ())
    gathered = chosen.gathered
    return ConclusionOfRunsOut(
        runs=len(gathered.runs),
        total=chosen.total,
        groups=chosen.fields,
        on=on_of(measured_on(gathered, on)) if gathered.runs else "",
        measured=measured_in_words(gathered),
        cautions=cautions(chosen, on),
        conclusion=ConclusionOut.of(conclude_across(context, chosen, on)),
    )


@router.get("/figures")
def list_figures(context: ContextDep, q: Search = "") -> list[str]:
    """The slugs of all figures that the runs of a search can have."""
    return offered_of(choose_runs(context, q).gathered)


@router.get("/figures/{slug}")
def show_figure(
    context: ContextDep, slug: str, look: SweepDep, q: Search = "", group: Group = None, on: On = ""
) -> FigureOut:
    """A figure of the runs of a search, as on the page of an experiment."""
    return FigureOut.of(read_across(context, choose_runs(context, q, group or ()), slug, on, look))
