"""Room to delete: on a full disk even that needs some."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from app.context import Context

Given = ParamSpec("Given")
Result = TypeVar("Result")


def freeing(
    delete: Callable[Concatenate[Context, Given], Result],
) -> Callable[Concatenate[Context, Given], Result]:
    """Let a service that deletes something work on a full disk, by freeing the spare file first."""

    @wraps(delete)
    def with_room(context: Context, /, *args: Given.args, **keywords: Given.kwargs) -> Result:
        with context.spare.freed():
            return delete(context, *args, **keywords)

    return with_room
