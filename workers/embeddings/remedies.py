"""The task that tries remedies on a measured embedding without asking, where its rows have labels."""

from hashlib import sha256

from app.db.models import Embedding, TaskRun, TaskStatus
from app.db.task import TaskConfig
from app.db.types import new_id
from isoscope.files.contents import Annotation
from isoscope.files.selection import Selection
from isoscope.remedies import find_labels
from isotropy.catalog import TruthKind


def propose_task(embedding: Embedding, n_groups: int) -> TaskRun | None:
    """Return the task that tries remedies on a measured embedding with ``n_groups`` groups; None without labels."""
    selection = Selection.model_validate(embedding.selection)
    annotations = [Annotation.model_validate(column) for column in (embedding.inspection or {}).get("annotations", [])]
    labels = find_labels(selection, annotations, embedding.n or 0, embedding.d or 0, n_groups)
    if labels is None:
        return None
    config = TaskConfig(
        kind=TruthKind.LABELS,
        similarity=selection.similarity,
        labels=labels,
        groups=selection.groups,
        remedies=True,
    )
    series = embedding.series
    family_id = None if series is None else sha256(f"{series} {config.model_dump_json()}".encode()).hexdigest()[:32]
    return TaskRun(id=new_id(), embedding_id=embedding.id, family_id=family_id, config=config, status=TaskStatus.QUEUED)
