"""The encode job: encode texts with a model and add an embedding for each layer, in one transaction."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import torch

from app.core.settings import Settings
from app.db import job_kinds
from app.db.encoding import EncodingConfig
from app.db.job_kinds import Job
from app.db.models import UNFINISHED_ENCODING, Embedding, EmbeddingOrigin, Encoding, EncodingStatus, TaskRun
from app.db.task import TaskConfig
from app.db.types import new_id, utcnow
from app.storage import Stored, open_storage
from app.storage.ledger import Ledger
from isoscope.files.ground_truth import PAIRS, ScoredPair, id_column, preview_pairs
from isoscope.files.selection import Selection
from isoscope.files.text import Quoting
from isotropy.catalog import TruthKind
from workers.embeddings.encoder import EncodedTexts, Encoder, LayerPooling, Texts, load_model, load_texts
from workers.failure import record_error
from workers.files import ARRAY, LABEL, NAME, fetch, make_jsonl, make_npy, storing_files
from workers.job_rows import JobProgress, StoppedError, job_sessions, make_file_rows
from workers.models import describe_environment, find_source, hide_other_gpus, max_input_length, silence_libraries

MAX_NAME_CHARACTERS = 200


def encode_texts(encoding_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Encode texts, add an embedding for each layer and pooling, and return their inspection jobs.

    A final or deleted encoding stays as it is. After a kill, the job starts over; files that were stored and not
    recorded are removed a day later (``Ledger.sweep``).
    """
    sessions = job_sessions(settings)
    begun = JobProgress.begin(
        sessions, Encoding, UNFINISHED_ENCODING, EncodingStatus.RUNNING, encoding_id, done=0, total=None
    )
    if begun is None:
        return ()
    encoding, progress = begun
    try:
        return _encode(encoding, progress, settings, device)
    except StoppedError:
        return ()
    except Exception as error:  # noqa: BLE001 - any but temporary errors belong in the row
        record_error(error, sessions, progress.update_running, status=EncodingStatus.FAILED, finished_at=utcnow())
        return ()


def _encode(encoding: Encoding, progress: JobProgress, settings: Settings, device: str) -> Sequence[Job]:
    silence_libraries()
    hide_other_gpus(device)
    torch_device = torch.device(torch.device(device).type)  # without an index, because this process sees only one
    if (config := encoding.config) is None:
        raise ValueError(f"expected an encoding that was launched, got the draft {encoding.id}")
    path = fetch(encoding.file_sha256, f"{encoding.filename} of {encoding.name!r}", settings)
    ids = id_column(column.name for column in encoding.columns)
    texts = load_texts(path, encoding.filename, config, encoding.quoting or Quoting.TEXT, ids)
    progress.write_and_commit(total=len(texts))

    source = find_source(config.model, settings, (encoding.environment or {}).get("model", {}).get("revision"))
    model, tokenizer = load_model(source, config.model, torch_device)
    max_length = max_input_length(model, tokenizer, config.max_length)
    environment = describe_environment(source, torch_device, max_length)
    environment["texts"] = {"n": len(texts), "n_empty": texts.n_empty}
    progress.write_and_commit(environment=environment)

    encoded = Encoder(model, tokenizer, config, max_length).encode(texts, settings.root, progress.advance)
    environment["model"]["layers"] = encoded.depth
    environment["batch_size"] = encoded.batch_size
    ledger = Ledger(progress.sessions, open_storage(settings))
    return publish(encoding, config, texts, encoded, environment, ledger, progress)


def publish(
    encoding: Encoding,
    config: EncodingConfig,
    texts: Texts,
    encoded: EncodedTexts,
    environment: dict[str, Any],
    ledger: Ledger,
    progress: JobProgress,
) -> list[Job]:
    """Add an embedding of each layer and pooling and finish the encoding in one transaction; return inspection jobs.

    Raises StoppedError, and leaves no files, if the encoding was cancelled or deleted.
    """
    _, n, d = encoded.vectors.shape
    with storing_files(ledger) as store_file:
        annotations = store_file(lambda: make_jsonl(texts.annotations()))  # one file for all embeddings
        vectors: list[Stored] = []
        for matrix in encoded.vectors:
            progress.advance(len(texts))  # raises StoppedError early
            vectors.append(store_file(partial(make_npy, n, d, matrix.dtype, [matrix])))
        embeddings = [
            _make_embedding(encoding, config, texts, layer_pooling, stored, annotations, environment)
            for layer_pooling, stored in zip(encoded.layer_poolings, vectors, strict=True)
        ]
        stored_files = [annotations, *vectors]
        tasks = []
        if texts.pairs is not None:
            columns = dict(zip(PAIRS, zip(*texts.pairs, strict=True), strict=True))
            truth = store_file(partial(make_jsonl, columns))
            stored_files.append(truth)
            tasks = _draft_tasks(encoding.filename, texts.pairs, config.match, embeddings, truth)
        now = utcnow()
        for i, embedding in enumerate(embeddings):
            embedding.created_at = now - timedelta(microseconds=i)  # so that lists, newest first, start with layer 0
        with ledger.recording(*stored_files) as session:
            progress.write(
                session,
                status=EncodingStatus.FINISHED,
                done=len(texts),
                error=None,
                environment=environment,
                finished_at=now,
            )
            session.add_all(embeddings)
            session.flush()
            session.add_all(tasks)
    return [Job(job_kinds.INSPECT, embedding.id) for embedding in embeddings]


def _draft_tasks(
    filename: str, pairs: Sequence[ScoredPair], match: float | None, embeddings: Sequence[Embedding], truth: Stored
) -> list[TaskRun]:
    """Return a draft of a task by the scored pairs for each embedding, to be queued once the embedding is measured."""
    preview = preview_pairs(pairs, [(int(pair.first), int(pair.second)) for pair in pairs], "Ids are row numbers.")
    ids = [new_id() for _ in embeddings]
    return [
        TaskRun(
            id=task_id,
            embedding_id=embedding.id,
            family_id=None if task_id == ids[0] else ids[0],
            config=TaskConfig(kind=TruthKind.PAIRS, match=match, remedies=True),
            filename=filename,
            truth_sha256=truth.sha256,
            preview=preview,
        )
        for task_id, embedding in zip(ids, embeddings, strict=True)
    ]


def _make_embedding(
    encoding: Encoding,
    config: EncodingConfig,
    texts: Texts,
    layer_pooling: LayerPooling,
    vectors: Stored,
    annotations: Stored,
    environment: dict[str, Any],
) -> Embedding:
    layer, pooling = layer_pooling
    suffix = f" · {config.model} · layer {layer}, {pooling}"
    filename = f"layer {layer}, {pooling}.npy"
    labels = None if texts.labels is None else LABEL
    return Embedding(
        id=new_id(),
        name=encoding.name[: MAX_NAME_CHARACTERS - len(suffix)] + suffix,
        filename=filename,
        format="npy",
        origin=EmbeddingOrigin.ENCODED,
        provenance={
            "model": config.model,
            **environment["model"],
            "texts": encoding.name,
            "filename": encoding.filename,
            "file_sha256": encoding.file_sha256,
            "layer": layer,
            "pooling": pooling.value,
            **config.model_dump(
                mode="json", include={"text_columns", "label_column", "score_column", "max_rows", "seed"}
            ),
            "max_length": environment["max_length"],
        },
        encoding_id=encoding.id,
        layer=layer,
        pooling=pooling,
        commit_when_inspected=True,
        selection=Selection(vectors=ARRAY, names=NAME, labels=labels).model_dump(),
        files=make_file_rows((filename, vectors), ("texts.jsonl", annotations)),
    )
