"""The step in which a choice is frozen and test scores are opened."""

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from app.context import Context
from app.dependencies import ContextDep
from app.problems import status_of
from app.results.metrics import SCALES
from app.routes.responses import see
from app.services.experiments import get_experiment
from app.services.openings import OpeningRequest, name_of_user, open_test, read_test_split
from app.templating import templates
from isoscope.core.errors import InvalidError, IsoscopeError

router = APIRouter(prefix="/experiments")

LONGEST_NOTE, LONGEST_NAME, LONGEST_CHOICE = 2000, 200, 2000


@router.get("/{experiment_id}/opening")
def show_form(request: Request, context: ContextDep, experiment_id: str) -> Response:
    """What can be chosen, and what freezing it means."""
    return _page(request, context, experiment_id)


@router.post("/{experiment_id}/opening")
def open_scores(
    request: Request,
    context: ContextDep,
    experiment_id: str,
    choose: Annotated[str, Form()] = "",
    run: Annotated[str, Form()] = "",
    note: Annotated[str, Form()] = "",
    by: Annotated[str, Form()] = "",
) -> Response:
    """Freeze the choice and show the scores, or show the form again with what is wrong."""
    typed = {"choose": choose, "run": run, "note": note, "by": by}
    try:
        if not (chosen := run or choose):
            raise InvalidError("Choose a setting or a run.", "choose")
        wanted = OpeningRequest(
            choose=chosen[:LONGEST_CHOICE],
            note=_at_most(note, LONGEST_NOTE, "note"),
            by=_at_most(by, LONGEST_NAME, "by"),
        )
        open_test(context, experiment_id, wanted)
    except IsoscopeError as error:
        return _page(request, context, experiment_id, error, typed)
    return see(f"/experiments/{experiment_id}#test")


def _at_most(text: str, most: int, field: str) -> str:
    if len(text) > most:
        raise InvalidError(f"Expected at most {most:,} characters, got {len(text):,}.", field)
    return text


def _page(
    request: Request,
    context: Context,
    experiment_id: str,
    problem: IsoscopeError | None = None,
    typed: dict[str, str] | None = None,
) -> Response:
    split = read_test_split(context, get_experiment(context, experiment_id))
    shown = {
        "experiment": split.experiment,
        "split": split,
        "scale": SCALES[split.experiment.config.metric],
        "user": name_of_user(context.settings),
        "problem": problem,
        "typed": typed or {"choose": "", "run": "", "note": "", "by": ""},
    }
    status = status_of(problem) if problem else 200
    return templates.TemplateResponse(request, "experiment_opening.html", shown, status_code=status)
