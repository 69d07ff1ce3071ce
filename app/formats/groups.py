"""Rows that share a text, directly or through other rows, gathered into groups."""

from collections import Counter
from collections.abc import Collection, Sequence


class Groups:
    """Joins rows by what they share; a group is named by the smallest digest in it, whatever the order of rows."""

    def __init__(self) -> None:
        self._parent: dict[bytes, bytes] = {}
        self._rows: Counter[bytes] = Counter()

    def add(self, digests: Sequence[bytes]) -> None:
        """Add a row with the digests of its texts, at least one."""
        roots = {self._find(digest) for digest in digests}
        smallest = min(roots)
        for root in roots - {smallest}:
            self._parent[root] = smallest
        self._rows[digests[0]] += 1

    def root(self, digests: Sequence[bytes]) -> bytes:
        """Return the name of the group of a row that was added."""
        return self._find(digests[0])

    def sizes(self, barred: Collection[bytes] = ()) -> dict[bytes, int]:
        """Return how many rows each group has, without groups that have one of the ``barred`` digests."""
        sizes: Counter[bytes] = Counter()
        for digest, rows in self._rows.items():
            sizes[self._find(digest)] += rows
        without = {self._find(digest) for digest in barred if digest in self._parent}
        return {root: size for root, size in sizes.items() if root not in without}

    def _find(self, digest: bytes) -> bytes:
        root = self._parent.setdefault(digest, digest)
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[digest] != root:
            self._parent[digest], digest = root, self._parent[digest]
        return root
