"""The form for name, tags and notes, and the actions on the selected rows of a list."""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Request, Response

from app.context import Context
from app.db.models import Described
from app.descriptions.row_list import RefusedRow, RowList
from app.descriptions.service import DescriptionChange, collect_tags
from app.web.dependencies import ContextDep, FormDep
from app.web.responses import redirect_to, render
from isoscope.core.errors import InvalidError

FIELDS = ("name", "notes", "tags")


def actions_router(row_list: RowList) -> APIRouter:
    router = APIRouter(prefix=row_list.path)

    @router.post("/actions")
    def act_on_selected(
        request: Request,
        context: ContextDep,
        selected: Annotated[list[str] | None, Form(alias=row_list.field)] = None,
        action: Annotated[str, Form()] = "",
        query: Annotated[str, Form()] = "",
        confirmed: Annotated[Literal["", "yes"], Form()] = "",
    ) -> Response:
        """Apply an action to the selected rows; ask for confirmation before deleting."""
        ids = list(dict.fromkeys(selected or []))

        def show_page(problem: InvalidError | None = None, refused_rows: Sequence[RefusedRow] = ()) -> Response:
            values = {
                "row_list": row_list,
                "slug": action,
                "action": row_list.actions.get(action),
                "ids": ids,
                "names": [row_list.name_or_id(context, row_id) for row_id in ids],
                "query": query,
                "back": row_list.back_url(query),
                "refused_rows": refused_rows,
            }
            return render(request, "descriptions/actions.html", values, problem, status=409 if refused_rows else None)

        if action not in row_list.actions or not ids:
            no_row_message = "No row is selected. Go back and select some."
            reason = no_row_message if action in row_list.actions else "Choose one of the actions."
            return show_page(InvalidError(reason, row_list.field))
        if row_list.actions[action].warning and not confirmed:
            return show_page()
        try:
            refused_rows = row_list.apply_action(context, action, ids)
        except InvalidError as error:
            return show_page(error)
        return show_page(None, refused_rows) if refused_rows else redirect_to(row_list.back_url(query))

    return router


def description_router(
    row_list: RowList,
    get_row: Callable[[Context, str], Described],
    describe: Callable[[Context, str, DescriptionChange], Described],
) -> APIRouter:
    router = actions_router(row_list)

    def show_page(
        request: Request, context: Context, row_id: str, typed: dict[str, str], problem: InvalidError | None = None
    ) -> Response:
        row = get_row(context, row_id)
        values = {"row_list": row_list, "row": row, "known_tags": collect_tags(context), "typed": typed}
        return render(request, "descriptions/description.html", values, problem)

    @router.get("/{row_id}/description")
    def show_form(request: Request, context: ContextDep, row_id: str) -> Response:
        return show_page(request, context, row_id, {})

    @router.post("/{row_id}/description")
    def change_description(request: Request, context: ContextDep, row_id: str, form: FormDep) -> Response:
        """Save the fields that are in the form. If one is invalid, show the form again with an error at that field."""
        typed = {name: str(form[name]) for name in FIELDS if name in form}
        tags = typed["tags"].split(",") if "tags" in typed else None
        try:
            describe(context, row_id, DescriptionChange(name=typed.get("name"), notes=typed.get("notes"), tags=tags))
        except InvalidError as error:
            return show_page(request, context, row_id, typed, error)
        return redirect_to(f"{row_list.path}/{row_id}")

    return router
