"""Every figure of every page over the API, made by the same functions."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from app.dependencies import ContextDep
from app.embeddings.comparison import compared_figures
from app.embeddings.report import report_figures
from app.encodings.layers import read_layers
from app.figures.figure import Figure
from app.playground.figures import playground_figures
from app.postprocess.trial import trial_figures
from app.results.run_page import RUN_FIGURES, read_run_figure
from app.routes.queries import LayersDep, MeasureQuery, PlaygroundDep, ShrinkageDep, SweepDep
from app.routes.responses import find_figure
from app.services.comparison import get_compared
from app.services.embeddings import get_embedding
from app.services.encodings import get_encoding
from app.services.experiments import get_experiment
from app.services.postprocess import get_postprocessing
from app.services.runs import get_run
from app.services.sweep_figures import offered, read_figure


class FigureOut(BaseModel):
    """A figure as its page shows it."""

    slug: str
    title: str
    caption: str
    empty: str | None = Field(description="What will appear, where there is nothing to draw yet; null where there is.")
    columns: list[str]
    rows: list[list[str | float | None]] = Field(description="The numbers, unrounded, as in its CSV file.")
    plot: dict[str, Any] | None = Field(description="`data` and `layout` as plotly takes them.")

    @classmethod
    def of(cls, figure: Figure) -> "FigureOut":
        """The figure, drawn unless it is empty."""
        return cls(
            slug=figure.slug,
            title=figure.title,
            caption=figure.caption,
            empty=figure.empty,
            columns=figure.table.columns,
            rows=list(figure.table.rows),
            plot=None if figure.empty else json.loads(figure.draw().to_json()),
        )


router = APIRouter(tags=["figures"])


@router.get("/experiments/{experiment_id}/figures")
def list_figures(context: ContextDep, experiment_id: str) -> list[str]:
    """The slugs of all figures that an experiment can have."""
    return offered(get_experiment(context, experiment_id))


@router.get("/experiments/{experiment_id}/figures/{slug}")
def show_figure_of_experiment(context: ContextDep, experiment_id: str, slug: str, query: SweepDep) -> FigureOut:
    """A figure of an experiment."""
    return FigureOut.of(read_figure(context, get_experiment(context, experiment_id), slug, query))


@router.get("/runs/{run_id}/figures/{slug}")
def show_figure_of_run(
    context: ContextDep,
    run_id: str,
    slug: Annotated[str, Path(description=f"One of {', '.join(RUN_FIGURES)}.")],
    measure: MeasureQuery = "",
) -> FigureOut:
    """A figure of a run; `measure` is what its layers are drawn by."""
    return FigureOut.of(read_run_figure(context, get_run(context, run_id), slug, measure))


@router.get("/embeddings/{embedding_id}/figures/{slug}")
def show_figure_of_embedding(context: ContextDep, embedding_id: str, slug: str, query: ShrinkageDep) -> FigureOut:
    """A figure of an embedding's report, `zeta` among them."""
    found = report_figures(context, get_embedding(context, embedding_id), slug, query)
    return FigureOut.of(find_figure(found, slug))


@router.get("/embeddings/{embedding_id}/postprocessings/{postprocessing_id}/figures/{slug}")
def show_figure_of_trial(context: ContextDep, embedding_id: str, postprocessing_id: str, slug: str) -> FigureOut:
    """A figure of what a method changed, before and after."""
    trial = get_postprocessing(context, embedding_id, postprocessing_id)
    return FigureOut.of(find_figure(trial_figures(trial), slug))


@router.get("/encodings/{encoding_id}/figures/{slug}")
def show_figure_of_encoding(context: ContextDep, encoding_id: str, slug: str, query: LayersDep) -> FigureOut:
    """A figure of an encoding's layers."""
    return FigureOut.of(find_figure(read_layers(context, get_encoding(context, encoding_id), query).figures, slug))


@router.get("/compare/figures/{slug}")
def show_figure_of_comparison(
    context: ContextDep,
    slug: str,
    id: Annotated[list[str], Query(description="Measured embeddings.")],  # noqa: A002 - the name in the URL
) -> FigureOut:
    """A figure with several embeddings in it."""
    return FigureOut.of(find_figure(compared_figures(context, get_compared(context, id), slug), slug))


@router.get("/playground/figures/{slug}")
def show_figure_of_playground(slug: str, query: PlaygroundDep) -> FigureOut:
    """A figure of the playground at a position of its sliders."""
    return FigureOut.of(find_figure(playground_figures(query), slug))
