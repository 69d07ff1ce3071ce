"""A printed table in Markdown, as GitHub reads it."""

import re

from app.results.tables.printed import Printed, Value
from isoscope.core.formatting import one_line

SPECIAL = re.compile(r"([!-/:-@\[-`{-~])")
"""ASCII punctuation, every character of which CommonMark lets a backslash escape."""
PLAIN = frozenset(".,:;()/'\"-+=%?")
"""Of it, what means nothing inside a cell."""
ALIVE = re.compile(r"(?<=@)(?=\w)|(?<=#)(?=\d)|(?<=:)(?=//)|(?<=\bwww)(?=\.)|(?<=:)(?=[\w+-]+:)", re.IGNORECASE)
"""Where GitHub makes a mention, a reference, a link or an emoji, which no backslash keeps it from."""
NOTHING = "<!-- -->"
MISSING = "–"


def escaped(text: str) -> str:
    """A text of a user's that stays a text."""
    return NOTHING.join(SPECIAL.sub(_one, part) for part in ALIVE.split(one_line(text)))


def _one(found: re.Match[str]) -> str:
    return found[1] if found[1] in PLAIN else rf"\{found[1]}"


def markdown(table: Printed) -> str:
    """Caption, then the table: groups to the left, numbers to the right."""
    rule = [*(":--" for _ in table.heads), *("--:" for _ in table.columns)]
    lines = [
        _line([escaped(one) for one in (*table.heads, *table.columns)]),
        _line(rule),
        *(_line([*map(escaped, line.labels), *map(_cell, line.cells)]) for line in table.lines),
    ]
    return f"{escaped(table.caption)}\n\n" + "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: Value | None) -> str:
    if value is None:
        return MISSING
    text = value.mean.replace("-", "−") + (f" ± {value.std}" if value.std is not None else "")
    number = f"**{text}**" if value.best else text
    return f"{number} ({value.size})" if value.size else number
