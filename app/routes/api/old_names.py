"""Notes for clients that call options as before: the request is taken, and its answer says so."""

from fastapi import Response

from app.db.config import TrainingOptions

NOTE = "X-Isoscope-Note"


def note_old_names(response: Response, request: TrainingOptions) -> None:
    """Say in a header which options are called otherwise now."""
    if request.old_names:
        response.headers[NOTE] = " ".join(request.old_names)
