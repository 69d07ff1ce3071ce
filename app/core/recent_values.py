"""A cache in memory that is limited by the total size of its values."""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class RecentValues(Generic[Value]):
    """A cache that evicts its least recently used values above a total size, but never the newest value."""

    def __init__(self, max_size: int) -> None:
        self._max_size, self._size = max_size, 0
        self._entries: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> Value | None:
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: Hashable, value: Value, size: int) -> None:
        with self._lock:
            if key in self._entries:
                self._size -= self._entries.pop(key)[1]
            self._entries[key] = value, size
            self._size += size
            while self._size > self._max_size and len(self._entries) > 1:
                self._size -= self._entries.popitem(last=False)[1][1]
