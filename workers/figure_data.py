"""What the figures of a report show and no single measure holds."""

from typing import Any

from isotropy.cloud import Cloud
from isotropy.findings import findings_of
from isotropy.projection import NamesOf, projection
from isotropy.sample_size import sample_size
from workers.neighbours import neighbours_data


def figure_data(
    cloud: Cloud, names_of: NamesOf, seed: int, dimension_names: list[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the data of each figure that there can be by its slug, in the form of ``FigureData``.

    ``names_of`` gives the names of rows by their places among all; ``seed`` is of what is drawn;
    ``dimension_names`` are those of the columns.
    """
    findings = [one.document() for one in findings_of(cloud, names_of, dimension_names)]
    data: dict[str, dict[str, Any]] = {
        "sample_size": sample_size(cloud),
        "projection": projection(cloud, seed, names_of),
        "findings": {"findings": findings},
    }
    neighbours = neighbours_data(cloud, names_of(cloud.rows[: len(cloud.pairs)]), seed)
    return data if neighbours is None else data | {"neighbours": neighbours}
