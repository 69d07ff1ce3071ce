"""The task that tries remedies on a measured embedding without asking, where its rows have labels."""

from hashlib import sha256

from app.db.models import Embedding, TaskRun, TaskStatus
from app.db.task import TaskConfig
from app.db.types import new_id
from isotropy.catalog import Similarity, TruthKind

MAX_CLASSES = 50
"""Values of a column that may be labels though nobody chose it."""
FEWEST_ROWS = 100
"""Groups of rows below which remedies are not tried: hardly any gain would be clear."""
MAX_NUMBERS = 2**27
"""Numbers of vectors that are read to try remedies: 512 MiB in float32."""


def propose_task(embedding: Embedding, groups: int) -> TaskRun | None:
    """Return the task that tries remedies on a measured embedding of so many groups of rows; None without labels."""
    n, d, selection = embedding.n or 0, embedding.d or 0, embedding.selection or {}
    if embedding.n_left_out or groups < FEWEST_ROWS or d < 2 or n * d > MAX_NUMBERS:
        return None
    columns = (embedding.inspection or {}).get("annotations", [])
    categories = [column["name"] for column in columns if column["n"] == n and 2 <= column["n_distinct"] <= MAX_CLASSES]
    labels = selection.get("labels") or next((name for name in categories if name != selection.get("names")), None)
    if labels is None:
        return None
    config = TaskConfig(
        kind=TruthKind.LABELS,
        similarity=Similarity(selection.get("similarity") or Similarity.COSINE),
        labels=labels,
        groups=selection.get("groups"),
        remedies=True,
    )
    series = embedding.series
    family_id = None if series is None else sha256(f"{series} {config.model_dump_json()}".encode()).hexdigest()[:32]
    return TaskRun(id=new_id(), embedding_id=embedding.id, family_id=family_id, config=config, status=TaskStatus.QUEUED)
