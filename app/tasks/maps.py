"""The maps of a task that has finished: to download, and applied to its vectors as a new embedding."""

from app.context import Context
from app.core.names import clean_name, describe_method
from app.db.models import Embedding
from app.db.task import MapFile, MapVariant, Side
from app.embeddings.service import add_mapped_embedding, get_embedding, require_measured
from app.tasks.service import get_results, get_task
from isoscope.core.errors import ConflictError, InvalidError
from isoscope.files.upload import NamedFile
from isotropy.catalog import METHODS


def get_map(context: Context, task_id: str, map_file: MapFile = "chosen") -> NamedFile:
    task = get_task(context, task_id)
    files = {"chosen": task.chosen_sha256, "smallest": task.smallest_sha256, "cutoff": task.cutoff_sha256}
    sha256 = files[map_file]
    if sha256 is None and task.results is not None:
        raise ConflictError("This task has no cutoff, so there is no map for it.")
    if sha256 is None:
        raise ConflictError(f"This task is {task.status}; there is a map when it has finished.")
    return NamedFile(context.storage.local_path(sha256), "map.safetensors")


def create_mapped_embedding(
    context: Context, task_id: str, map_variant: MapVariant = "chosen", name: str | None = None, side: Side = "corpus"
) -> Embedding:
    """Map the corpus or the queries of a task by its chosen or smallest variant, as a new embedding."""
    task, results = get_task(context, task_id), get_results(context, task_id)
    source_id = {"corpus": task.embedding_id, "queries": task.queries_id}[side]
    if source_id is None:
        raise InvalidError("This task has no queries. Map its corpus.", "of")
    source = get_embedding(context, source_id)
    require_measured(source, "a map")
    variant = results.variants[{"chosen": results.chosen, "smallest": results.smallest}[map_variant]]
    if not variant.changes_vectors:
        raise ConflictError(
            f"The {map_variant} variant keeps the vectors of {source.name} as they are. "
            "A new embedding would be a copy."
        )
    # The variant without its storage: "Soft ZCA whitening, eps 0.1, PCA-192".
    method = describe_method(variant.method, variant.parameters) if variant.method in METHODS else ""
    reduction = variant.dimensions.replace("pca", "PCA").replace("first-", "first ")
    variant_title = ", ".join(part for part in (method, "" if reduction == "all" else reduction) if part)
    reduction_kind, *kept_dimensions = variant.dimensions.rsplit("-", 1)  # such as "pca-192", "first-64" or "all"
    provenance = {
        "which": map_variant,
        "variant": variant_title,
        "method": variant.method,
        "parameters": variant.parameters,
        "dimensions": variant.dimensions,
        "similarity": results.similarity.value,
        "seed": task.config.seed,
    }
    if side == "corpus" and (variant.method in METHODS or reduction_kind == "pca"):
        provenance |= {"rows": source.n_measured, "fit_rows": results.n}
    d = int(kept_dimensions[0]) if kept_dimensions else results.d
    title = clean_name(name, f"{source.name}, {variant_title}")
    return add_mapped_embedding(context, source, task_id, title, d, provenance)
