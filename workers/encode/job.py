"""The encode job: the row of a launched encoding in, an embedding of every layer out."""

from collections.abc import Sequence

import torch

from app.db.models import UNFINISHED_ENCODING, Encoding, EncodingStatus
from app.db.session import Sessions
from app.db.types import utcnow
from app.queue import Job
from app.settings import Settings
from app.storage import open_storage
from app.storage.ledger import Ledger
from isoscope.files.quoting import Quoting
from workers.device import choose_device
from workers.encode.forward import Encoder
from workers.encode.model import load_model
from workers.encode.progress import EncodingStoppedError, Progress
from workers.encode.publish import publish
from workers.encode.texts import load_texts
from workers.environment import describe_environment
from workers.failure import record
from workers.files import fetch
from workers.models import be_quiet, find_source, longest_input
from workers.sessions import job_sessions


def encode_texts(encoding_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Put the texts of an encoding through its model, and make an embedding of each layer and pooling.

    One that is final or gone is left as it is. One killed at any moment begins afresh; files that it had
    stored and not recorded go a day later (``Ledger.sweep``).
    """
    sessions = job_sessions(settings)
    if (encoding := _begin(sessions, encoding_id)) is None or encoding.started_at is None:
        return ()
    progress = Progress(sessions, encoding_id, encoding.started_at)
    try:
        return _work(encoding, progress, settings, device)
    except EncodingStoppedError:
        return ()
    except Exception as error:  # noqa: BLE001 - whatever it is belongs into the row, not into a retry
        record(error, sessions, progress.row, status=EncodingStatus.FAILED, finished_at=utcnow())
        return ()


def _begin(sessions: Sessions, encoding_id: str) -> Encoding | None:
    """Set the encoding to running and return it; None if nobody waits for it."""
    with sessions.begin() as session:
        encoding = session.get(Encoding, encoding_id, with_for_update=True)
        if encoding is None or encoding.status not in UNFINISHED_ENCODING:
            return None
        encoding.status, encoding.done, encoding.total = EncodingStatus.RUNNING, 0, None
        encoding.started_at = utcnow()
        return encoding


def _work(encoding: Encoding, progress: Progress, settings: Settings, device: str) -> Sequence[Job]:
    be_quiet()
    choose_device(device)
    at = torch.device(torch.device(device).type)  # the only one of its type that this process sees
    if (config := encoding.config) is None:
        raise ValueError(f"expected an encoding that was launched, got the draft {encoding.id}")
    path = fetch(encoding.file_sha256, f"{encoding.filename} of {encoding.name!r}", settings)
    texts = load_texts(path, encoding.filename, config, encoding.quoting or Quoting.TEXT)
    progress.say(total=len(texts))

    source = find_source(config.model, settings, (encoding.environment or {}).get("model", {}).get("revision"))
    model, tokenizer = load_model(source, config.model, at)
    max_length = longest_input(model, tokenizer, config.max_length)
    environment = describe_environment(source, at, max_length)
    environment["texts"] = {"n": len(texts), "n_empty": texts.n_empty}
    progress.say(environment=environment)

    encoded = Encoder(model, tokenizer, config, max_length).encode(texts, settings.root, progress.advance)
    environment["model"]["layers"] = encoded.depth
    environment["batch_size"] = encoded.batch_size
    ledger = Ledger(progress.sessions, open_storage(settings))
    return publish(encoding, config, texts, encoded, environment, ledger, progress)
