"""What the nearest neighbours of a cloud's rows say. All share one pass, over distinct rows."""

from __future__ import annotations

from isotropy.report.finding import Measuring

MEASURES: dict[str, Measuring] = {}
