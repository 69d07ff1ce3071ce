"""The Python client of a dashboard: everything its pages do, as methods that return plain dictionaries.

>>> from isoscope.client import Isoscope
>>> isoscope = Isoscope("http://127.0.0.1:8000")
>>> isoscope.score(isoscope.upload("embeddings.npy"))["isoscore"]["value"]
0.31
"""

from isoscope.client.connection import Reference, RefusedError, Row
from isoscope.client.data import Embeddings, Postprocessings
from isoscope.client.encodings import Encodings
from isoscope.client.runs import Figures, Runs, ScriptRuns
from isoscope.client.tasks import Tasks
from isoscope.client.training import Imports, QueueStatus

__all__ = ["Isoscope", "RefusedError"]


class Isoscope(Embeddings, Postprocessings, Tasks, Encodings, Imports, Runs, ScriptRuns, QueueStatus, Figures):
    """A dashboard at ``url`` that asks for ``token``, from ``ISOSCOPE_URL`` and ``ISOSCOPE_ACCESS_TOKEN`` by default.

    Methods raise RefusedError with the server's message, UnavailableError if no server answers, and InvalidError for
    values that cannot be sent. They take the server's records by id, or as the dictionary that another method returned.

    >>> isoscope = Isoscope()
    >>> experiment = isoscope.wait(isoscope.sweep("sweep.yaml"))
    >>> isoscope.runs("status:finished", sort="-performance")[0]["lam"]
    -1.0
    """

    def measures(self) -> list[Row]:
        """Return every measure with its formula, range, pitfall and source."""
        return self.get_list("measures")

    def playground(self, shape: str, spread: float, shift: float, n: int) -> Row:
        """Return the measures of a small cloud at a position of ``playground_grid``."""
        return self.get("playground", shape=shape, spread=spread, shift=shift, n=n)

    def playground_grid(self) -> Row:
        return self.get("playground", "grid")

    def space(self) -> Row:
        """Return the free space of the server's disks, and what takes up room there."""
        return self.get("space")

    def tokens(self) -> list[Row]:
        """Return the named access tokens, without their secrets."""
        return self.get_list("tokens")

    def create_token(self, name: str, *, scope: str = "write", days: int | None = None) -> Row:
        """Return a new access token; its secret, ``token``, is never shown again."""
        return self.post("tokens", json={"name": name, "scope": scope, "days": days})

    def revoke_token(self, token: Reference) -> Row:
        """Revoke a token, by its id or name, and end its sessions."""
        return self.delete("tokens", token)

    def activity(self, *, limit: int = 50, offset: int = 0) -> list[Row]:
        """Return who changed what, newest first."""
        return self.get_page("/api/activity", limit=limit, offset=offset)[0]

    def health(self) -> Row:
        return self.get("health")
