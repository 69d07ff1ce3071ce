"""What the URL says of the figures of a sweep, on pages and over the API."""

from typing import Annotated

from fastapi import Depends, Query

from app.figures.logged import WINDOWS
from app.figures.scatter import Look
from app.results.layer_measures import WATCHED
from app.results.statistics.estimate import Error
from app.services.sweep_figures import SweepQuery, View

Whole = Annotated[int, Query(ge=0, le=100_000)]


def _query(
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


SweepDep = Annotated[SweepQuery, Depends(_query)]
