"""A figure that needs no upload: how many rows the scores of a Gaussian in 768 dimensions take."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from app.figures.figure import Figure
from app.figures.report import figures_of
from app.figures.subject import Subject

FILE = Path(__file__).with_name("gaussian_example.json")
SLUG = "sample_size"


def gaussian_example() -> Figure | None:
    """The sample-size figure of the Gaussian; None where there is none."""
    subject = Subject("Gaussian, d = 768", {}, _read())
    return next((figure for figure in figures_of([subject]) if figure.slug == SLUG), None)


@cache
def _read() -> dict[str, Any]:
    return {SLUG: json.loads(FILE.read_text(encoding="utf-8"))} if FILE.is_file() else {}
