"""Actions on several rows at once over the API."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.db.types import RowId
from app.descriptions.row_list import MAX_ROWS, RefusedRow, RowList
from app.web.dependencies import ContextDep


class RowActionIn(BaseModel):
    """An action on several rows."""

    action: Annotated[str, Field(description="An unknown one is refused with the list of known actions.")]
    ids: Annotated[list[RowId], Field(min_length=1, max_length=MAX_ROWS)]


class RowActionOut(BaseModel):
    """The result of an action; rows do not depend on each other."""

    done: list[str] = Field(description="Ids of the rows to which the action was applied.")
    refused: list[RefusedRow]


def actions_router(row_list: RowList, tag: str) -> APIRouter:
    router = APIRouter(prefix=row_list.path, tags=[tag])
    names = ", ".join(f"`{slug}`" for slug in row_list.actions)

    @router.post(
        "/actions",
        description=f"Apply an action to several rows: {names}. A row that is refused does not affect the others.",
    )
    def act_on_rows(context: ContextDep, request: RowActionIn) -> RowActionOut:
        ids = list(dict.fromkeys(request.ids))
        refused = row_list.apply_action(context, request.action, ids)
        refused_ids = {row.id for row in refused}
        return RowActionOut(done=[row_id for row_id in ids if row_id not in refused_ids], refused=refused)

    return router
