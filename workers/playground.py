"""What the playground shows, measured ahead: ``python -m workers.playground > app/playground/grid.json``."""

import json
import sys
from typing import Any

from app.playground.clouds import MEASURES, SHAPES, SHIFTS, SIZES, SPREADS, Position, cloud
from isotropy.cloud import read_cloud
from isotropy.report import measure
from isotropy.rows import Rows

DIGITS = 5


def measured_at(position: Position) -> list[float | None]:
    """The measures of the cloud at a position, to five digits."""
    found = measure(read_cloud(Rows(cloud(*position))), MEASURES)
    scores = (found[slug].score.value for slug in MEASURES)
    return [None if score is None else float(f"{score:.{DIGITS}g}") for score in scores]


def grid() -> dict[str, Any]:
    """Every position as ``app.playground.clouds`` reads it."""
    return {
        shape: [
            [[measured_at(Position(shape, spread, shift, n)) for n in SIZES] for shift in SHIFTS] for spread in SPREADS
        ]
        for shape in SHAPES
    }


def main() -> None:
    """Print them, a line for each shape."""
    lines = (f"{json.dumps(shape)}: {json.dumps(found, separators=(',', ':'))}" for shape, found in grid().items())
    sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
