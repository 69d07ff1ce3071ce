"""Actions on several rows at once over the API."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.db.types import RowId
from app.descriptions.service import MAX_ROWS, Noun
from app.web.dependencies import ContextDep, Row


class ActionIn(BaseModel):
    """An action on several rows."""

    action: Annotated[str, Field(description="An unknown one is refused with the list of known actions.")]
    ids: Annotated[list[RowId], Field(min_length=1, max_length=MAX_ROWS)]
    tags: Annotated[list[str], Field(description="For the action `tag`: tags to add.")] = []


class RefusalOut(Row):
    """A row to which the action could not be done, and why."""

    id: str
    name: str
    reason: str


class ActionOut(BaseModel):
    """What was done; rows do not depend on each other."""

    done: list[str] = Field(description="Ids of the rows to which it was done.")
    refused: list[RefusalOut]


def actions_router(noun: Noun, tag: str) -> APIRouter:
    """Return the route of the actions on rows of a table."""
    router = APIRouter(prefix=noun.path, tags=[tag])
    names = ", ".join(f"`{slug}`" for slug in noun.all_actions)

    @router.post("/actions", description=f"Do one thing to several rows: {names}. Each row is done or refused alone.")
    def act_on_rows(context: ContextDep, asked: ActionIn) -> ActionOut:
        ids = list(dict.fromkeys(asked.ids))
        refusals = noun.act(context, asked.action, ids, asked.tags)
        refused = {one.id for one in refusals}
        return ActionOut(
            done=[row_id for row_id in ids if row_id not in refused],
            refused=[RefusalOut.model_validate(one) for one in refusals],
        )

    return router
