"""What the figures of a report show and no single measure holds."""

from typing import Any

from isotropy.cloud import Cloud
from isotropy.projection import projection
from isotropy.sample_size import sample_size


def figure_data(cloud: Cloud, seed: int) -> dict[str, dict[str, Any]]:
    """Return the data of each figure by its slug, in the form of ``FigureData``; ``seed`` is of what is drawn."""
    return {"sample_size": sample_size(cloud), "projection": projection(cloud, seed)}
