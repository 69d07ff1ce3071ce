"""Labels: one name for each, whatever a file writes it as."""

import re
from collections.abc import Iterable

MAX_LABELS = 200

WHOLE_NUMBER = re.compile(r"(-?(?:0|[1-9]\d*))(?:\.0*)?", re.ASCII)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)


def label_text(value: object) -> str:
    """Return the name of a label: ``1``, ``1.0``, ``"1"`` and ``"1.0 "`` are one label in all formats."""
    text = str(value).strip()
    whole = WHOLE_NUMBER.fullmatch(text)
    return whole[1] if whole else text


def sort_labels(labels: Iterable[str]) -> list[str]:
    """Return labels in an order that does not depend on the file: numbers by size, then texts."""
    return sorted(labels, key=lambda label: (0, float(label), label) if NUMBER.fullmatch(label) else (1, 0.0, label))
