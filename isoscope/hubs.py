"""The rows that are hubs, by their names and where they stand in the file."""

from collections.abc import Sequence

import torch

from isoscope.files.matrix import Matrix
from isoscope.rows import values_of
from isotropy.report import Finding


def with_names(found: Finding, matrix: Matrix, annotation: str | None) -> Finding:
    """Return what was found of hubness with the hubs' names, and their rows as places in the file.

    Args:
        found: of ``isotropy.report.measure``; without hubs it is returned as it is.
        matrix: the rows that were measured.
        annotation: what names them; None where they have no names.

    """
    hubs = (found.detail or {}).get("hubs")
    if not hubs:
        return found
    rows = [one["row"] for one in hubs]
    names: Sequence[str | None] = values_of(matrix, annotation, torch.tensor(rows)) or [None] * len(rows)
    places = rows if matrix.row_places is None else matrix.row_places[rows].tolist()
    told = [
        {"row": place, "name": name, "occurrences": one["occurrences"]}
        for place, name, one in zip(places, names, hubs, strict=True)
    ]
    return found._replace(detail={**(found.detail or {}), "hubs": told})
