"""The Python client of a dashboard: all that its pages do, as methods that answer with plain dictionaries.

>>> from isoscope.client import Isoscope
>>> isoscope = Isoscope("http://127.0.0.1:8000")
>>> isoscope.score(isoscope.upload("embeddings.npy"))["isoscore"]["value"]
0.31
"""

from isoscope.remote.connection import RefusedError, Row
from isoscope.remote.embeddings import Embeddings
from isoscope.remote.encodings import Encodings
from isoscope.remote.figures import Figures
from isoscope.remote.imports import Imports
from isoscope.remote.postprocessings import Postprocessings
from isoscope.remote.queue import Queue
from isoscope.remote.runs import Runs
from isoscope.remote.script_runs import ScriptRuns
from isoscope.remote.views import Views

__all__ = ["Isoscope", "RefusedError"]


class Isoscope(Embeddings, Postprocessings, Encodings, Imports, Runs, ScriptRuns, Queue, Figures, Views):
    """A dashboard at ``url`` that asks for ``token``, from ``ISOSCOPE_URL`` and ``ISOSCOPE_ACCESS_TOKEN`` by default.

    It raises RefusedError, which says the server's sentence, where the server refuses, UnavailableError where none
    answers, and InvalidError for what cannot be sent at all. Where a method takes something on the server, it takes its
    id or the dictionary that another method answered with.

    >>> isoscope = Isoscope()
    >>> experiment = isoscope.wait(isoscope.sweep("sweep.yaml"))
    >>> isoscope.runs("status:finished", sort="-performance")[0]["lam"]
    -1.0
    """

    def measures(self) -> list[Row]:
        """Return every measure with its formula, range, pitfall and source."""
        answer: list[Row] = self.ask("GET", "/api/measures")
        return answer

    def playground(self, shape: str, spread: float, shift: float, n: int) -> Row:
        """Return what was measured of a small cloud at a position of ``playground_grid``."""
        query = {"shape": shape, "spread": spread, "shift": shift, "n": n}
        answer: Row = self.ask("GET", "/api/playground", params=query)
        return answer

    def playground_grid(self) -> Row:
        """Return the positions at which small clouds were measured."""
        answer: Row = self.ask("GET", "/api/playground/grid")
        return answer

    def space(self) -> Row:
        """Return the free space of the server's disks, and what takes up room there.

        >>> isoscope.space()["disks"][0]["free_bytes"]
        """
        answer: Row = self.ask("GET", "/api/space")
        return answer

    def health(self) -> Row:
        """Return how many workers are alive."""
        answer: Row = self.ask("GET", "/api/health")
        return answer
