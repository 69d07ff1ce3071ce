"""The Python client of a dashboard: all that its pages do, as methods that answer with plain dictionaries.

>>> from isoscope.client import Isoscope
>>> isoscope = Isoscope("http://127.0.0.1:8000")
>>> isoscope.score(isoscope.upload("embeddings.npy"))["isoscore"]["value"]
0.31
"""

from isoscope.client.connection import RefusedError, Row
from isoscope.client.data import Embeddings, Postprocessings
from isoscope.client.encodings import Encodings
from isoscope.client.runs import Figures, Runs, ScriptRuns
from isoscope.client.tasks import Tasks
from isoscope.client.training import Imports, Queue

__all__ = ["Isoscope", "RefusedError"]


class Isoscope(Embeddings, Postprocessings, Tasks, Encodings, Imports, Runs, ScriptRuns, Queue, Figures):
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
        return self.get_list("measures")

    def playground(self, shape: str, spread: float, shift: float, n: int) -> Row:
        """Return what was measured of a small cloud at a position of ``playground_grid``."""
        return self.get("playground", shape=shape, spread=spread, shift=shift, n=n)

    def playground_grid(self) -> Row:
        """Return the positions at which small clouds were measured."""
        return self.get("playground", "grid")

    def space(self) -> Row:
        """Return the free space of the server's disks, and what takes up room there.

        >>> isoscope.space()["disks"][0]["free_bytes"]
        """
        return self.get("space")

    def health(self) -> Row:
        """Return how many workers are alive."""
        return self.get("health")
