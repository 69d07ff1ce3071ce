from collections.abc import Callable, Iterable
from typing import Any

import pytest


def mark_long(cases: Iterable[Any], is_quick: Callable[[Any], bool]) -> list[Any]:
    """Return the cases of a test, those that are not quick marked ``long``."""
    return [case if is_quick(case) else pytest.param(case, marks=pytest.mark.long) for case in cases]
