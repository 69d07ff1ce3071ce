"""The playground: a small cloud, and why mean cosine is not isotropy."""

from fastapi import APIRouter, Request, Response

from app.playground.clouds import SHAPES, SHIFTS, SIZES, SPREADS, Position, explain_measures, get_measures
from app.playground.figures import INITIAL_POSITION, PlaygroundDep, playground_figures
from app.web.responses import FileKind, figure_file, render

router = APIRouter(prefix="/playground")

PRESETS = {
    "Gaussian at the origin": INITIAL_POSITION._replace(shift=0.0),
    "The same, shifted": INITIAL_POSITION,
    "A narrow cone that is still even": Position("cone", 1.0, 2.0, 512),
    "A line through the origin: cosine 0, isotropy 0": Position("line", 0.0, 0.0, 512),
    "Too few points": Position("sphere", 1.0, 0.0, 8),
}


@router.get("")
def show_playground(request: Request, query: PlaygroundDep) -> Response:
    cloud, shift, example = playground_figures(query)
    page = {
        "query": query,
        "position": query.position,
        "shapes": SHAPES,
        "spreads": SPREADS,
        "shifts": SHIFTS,
        "sizes": SIZES,
        "presets": PRESETS,
        "numbers": get_measures(query.position),
        "explanation": explain_measures(query.position),
        "cloud": cloud,
        "shift": shift,
        "example": example,
    }
    return render(request, "playground/playground.html", page)


@router.get("/figures/{slug}.{kind}")
def show_figure(slug: str, kind: FileKind, query: PlaygroundDep) -> Response:
    return figure_file(playground_figures(query), slug, kind)
