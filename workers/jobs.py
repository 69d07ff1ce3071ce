"""Which function does which kind of job. The fork server imports this once, and torch and transformers with it."""

from collections.abc import Callable, Sequence

from app.queue import Job, JobKind
from app.settings import Settings
from workers.curve import compute_curve
from workers.encode.job import encode_texts
from workers.finetune.dry_run import dry_run
from workers.finetune.job import fine_tune
from workers.importing.job import discard_import, import_experiment
from workers.inspection import inspect_embedding
from workers.lookup import look_up
from workers.make import make_embedding
from workers.measure import measure_embedding
from workers.postprocess import post_process

# Each takes a row's id and returns the jobs that follow; what came of it is in the row.
WORK: dict[JobKind, Callable[[str, Settings, str], Sequence[Job]]] = {
    JobKind.INSPECT: inspect_embedding,
    JobKind.MEASURE: measure_embedding,
    JobKind.CURVE: compute_curve,
    JobKind.POSTPROCESS: post_process,
    JobKind.LOOKUP: look_up,
    JobKind.MAKE: make_embedding,
    JobKind.ENCODE: encode_texts,
    JobKind.DRY_RUN: dry_run,
    JobKind.FINETUNE: fine_tune,
    JobKind.IMPORT: import_experiment,
    JobKind.DISCARD: discard_import,
}
