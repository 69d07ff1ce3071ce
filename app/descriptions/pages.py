"""The form for name, tags and notes, and actions on the rows selected in a list: one for embeddings and experiments."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Depends, Form, Request, Response

from app.context import Context
from app.db.models import Described
from app.descriptions.service import DescriptionChange, known_tags, split_tags
from app.web.dependencies import ContextDep
from app.web.error_responses import status_of
from app.web.responses import see
from app.web.templating import templates
from isoscope.core.errors import InvalidError, IsoscopeError

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


@dataclass(frozen=True)
class Action:
    """Something done to each of the selected rows."""

    label: str
    act: Callable[[Context, str], object]
    warning: str = ""
    """What is lost for good; the page asks before it is done."""


@dataclass(frozen=True)
class Noun:
    """What these pages need to know of a table."""

    path: str
    """Of the list; the page of a row lies below."""
    title: str
    """Of the list."""
    section: str
    field: str
    """Name of the checkboxes in the list."""
    get: Callable[[Context, str], Described]
    describe: Callable[[Context, str, DescriptionChange], Described]
    actions: dict[str, Action]
    """Those that only this table has."""

    @property
    def all_actions(self) -> dict[str, Action]:
        """Every action by its name in the form, destructive ones last; the page asks for the words of ``tag``."""
        own = self.actions.items()
        changes = {
            "star": ("Star", DescriptionChange(starred=True)),
            "unstar": ("Unstar", DescriptionChange(starred=False)),
            "archive": ("Archive", DescriptionChange(archived=True)),
            "unarchive": ("Unarchive", DescriptionChange(archived=False)),
        }
        return {
            **{slug: action for slug, action in own if not action.warning},
            "tag": Action("Tag", lambda _context, _row_id: None),
            **{slug: Action(label, self._describing(change)) for slug, (label, change) in changes.items()},
            **{slug: action for slug, action in own if action.warning},
        }

    def _describing(self, change: DescriptionChange) -> Callable[[Context, str], object]:
        return lambda context, row_id: self.describe(context, row_id, change)

    def tagging(self, tags: Sequence[str]) -> Callable[[Context, str], object]:
        """Return what adds tags to those of a row."""

        def add(context: Context, row_id: str) -> object:
            there = self.get(context, row_id).words
            return self.describe(context, row_id, DescriptionChange(tags=[*there, *tags]))

        return add


class Refusal(NamedTuple):
    """A row to which an action could not be done, and why."""

    name: str
    reason: str


def description_router(noun: Noun) -> APIRouter:
    """Return the routes of the form and of the actions for a table."""
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
        back = f"{noun.path}?{query}" if query else noun.path
        asked = Asked(noun, action, ids, query, back, tags)
        if (chosen := noun.all_actions.get(action)) is None or not ids:
            missing = "No row is selected. Go back and select some." if chosen else "Choose one of the actions."
            return asked.page(request, context, problem=InvalidError(missing, noun.field))
        if not confirmed and (chosen.warning or action == "tag"):
            return asked.page(request, context)
        act = chosen.act if action != "tag" else noun.tagging(split_tags(tags))
        refusals = []
        for row_id in ids:
            try:
                act(context, row_id)
            except InvalidError as error:  # the tags, which are the same for every row
                return asked.page(request, context, problem=error)
            except IsoscopeError as error:
                refusals.append(Refusal(asked.name_of(context, row_id), error.message))
        return asked.page(request, context, refusals=refusals) if refusals else see(back)

    @router.get("/{row_id}/description")
    def show_form(request: Request, context: ContextDep, row_id: str) -> Response:
        """Show the form."""
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
    noun: Noun,
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
        "problem": problem,
    }
    status = status_of(problem) if problem else 200
    return templates.TemplateResponse(request, "descriptions/description.html", shown, status_code=status)


class Asked(NamedTuple):
    """An action asked for in a list."""

    noun: Noun
    action: str
    ids: Sequence[str]
    query: str
    """Of the list, so that the way back leads to the same rows."""
    back: str
    tags: str

    def name_of(self, context: Context, row_id: str) -> str:
        """Return the name of a row, or its id where it is gone."""
        try:
            return self.noun.get(context, row_id).name
        except IsoscopeError:
            return row_id

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
            "names": [self.name_of(context, row_id) for row_id in self.ids],
            "known_tags": known_tags(context),
            "problem": problem,
            "refusals": refusals,
        }
        status = status_of(problem) if problem else 409 if refusals else 200
        return templates.TemplateResponse(request, "descriptions/actions.html", shown, status_code=status)
