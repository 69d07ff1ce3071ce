"""What the figures of a report show and no single measure holds."""

from collections.abc import Sequence
from typing import Any

from isotropy.cloud import Cloud
from isotropy.projection import projection
from isotropy.sample_size import sample_size
from workers.neighbours import neighbours_data


def figure_data(cloud: Cloud, names: Sequence[str] | None, seed: int) -> dict[str, dict[str, Any]]:
    """Return the data of each figure that there can be by its slug, in the form of ``FigureData``.

    ``names`` are of the rows of ``cloud.pairs``, None where they have none; ``seed`` is of what is drawn.
    """
    data = {"sample_size": sample_size(cloud), "projection": projection(cloud, seed, names)}
    neighbours = neighbours_data(cloud, names, seed)
    return data if neighbours is None else data | {"neighbours": neighbours}
