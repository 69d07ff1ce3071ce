"""The form for name, tags and notes, and actions on the rows selected in a list: one for every table that has them."""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Depends, Form, Request, Response

from app.context import Context
from app.descriptions.service import TAG, DescribedNoun, DescriptionChange, Noun, Refusal, known_tags, split_tags
from app.web.dependencies import ContextDep
from app.web.responses import render, see
from isoscope.core.errors import InvalidError

TEXTS = ("name", "notes", "tags")
FLAGS = ("starred", "archived")


class Typed(NamedTuple):
    """A submitted form: its texts as they were typed, and the change they mean."""

    texts: dict[str, str]
    change: DescriptionChange


async def read_change(request: Request) -> Typed:
    """Read the fields that a form has; those it lacks stay as they are, those it empties become empty."""
    form = await request.form()
    texts = {name: str(form[name]) for name in TEXTS if name in form}
    change = DescriptionChange(
        name=texts.get("name"),
        notes=texts.get("notes"),
        tags=split_tags(texts["tags"]) if "tags" in texts else None,
        **{name: form[name] == "true" for name in FLAGS if name in form},
    )
    return Typed(texts, change)


def actions_router(noun: Noun) -> APIRouter:
    """Return the route of the actions on selected rows of a table."""
    router = APIRouter(prefix=noun.path)

    @router.post("/actions")
    def act_on_selected(
        request: Request,
        context: ContextDep,
        selected: Annotated[list[str] | None, Form(alias=noun.field)] = None,
        action: Annotated[str, Form()] = "",
        query: Annotated[str, Form()] = "",
        tags: Annotated[str, Form()] = "",
        confirmed: Annotated[Literal["", "yes"], Form()] = "",
    ) -> Response:
        """Do an action to the selected rows, or ask first for tags or before something is deleted."""
        ids = list(dict.fromkeys(selected or []))
        asked = Asked(noun, action, ids, query, noun.back(query), tags)
        if (chosen := noun.all_actions.get(action)) is None or not ids:
            missing = "No row is selected. Go back and select some." if chosen else "Choose one of the actions."
            return asked.page(request, context, problem=InvalidError(missing, noun.field))
        if not confirmed and (chosen.warning or action == TAG):
            return asked.page(request, context)
        try:
            refusals = noun.act(context, action, ids, split_tags(tags))
        except InvalidError as error:
            return asked.page(request, context, problem=error)
        return asked.page(request, context, refusals=refusals) if refusals else see(asked.back)

    return router


def description_router(noun: DescribedNoun) -> APIRouter:
    """Return the routes of the form and of the actions for a table."""
    router = actions_router(noun)

    @router.get("/{row_id}/description")
    def show_form(request: Request, context: ContextDep, row_id: str) -> Response:
        return _form(noun, request, context, row_id, {})

    @router.post("/{row_id}/description")
    def describe(
        request: Request, context: ContextDep, row_id: str, typed: Annotated[Typed, Depends(read_change)]
    ) -> Response:
        """Keep what the form says, or show it again with the sentence at the field that is wrong."""
        try:
            noun.describe(context, row_id, typed.change)
        except InvalidError as error:
            return _form(noun, request, context, row_id, typed.texts, error)
        return see(f"{noun.path}/{row_id}")

    return router


def _form(
    noun: DescribedNoun,
    request: Request,
    context: Context,
    row_id: str,
    given: dict[str, str],
    problem: InvalidError | None = None,
) -> Response:
    shown = {
        "noun": noun,
        "row": noun.get(context, row_id),
        "known_tags": known_tags(context),
        "given": given,
    }
    return render(request, "descriptions/description.html", shown, problem)


class Asked(NamedTuple):
    """An action asked for in a list."""

    noun: Noun
    action: str
    ids: Sequence[str]
    query: str
    """Of the list, so that the way back leads to the same rows."""
    back: str
    tags: str

    def page(
        self,
        request: Request,
        context: Context,
        *,
        problem: InvalidError | None = None,
        refusals: Sequence[Refusal] = (),
    ) -> Response:
        """Ask, or say what could not be done."""
        shown = {
            "asked": self,
            "chosen": self.noun.all_actions.get(self.action),
            "names": [self.noun.known_name(context, row_id) for row_id in self.ids],
            "known_tags": known_tags(context),
            "refusals": refusals,
        }
        return render(request, "descriptions/actions.html", shown, problem, status=409 if refusals else None)
