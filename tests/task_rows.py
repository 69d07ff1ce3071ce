import json
from pathlib import Path
from typing import Any

import numpy as np

from app.context import Context
from app.db.models import EmbeddingFile, StoredFile
from isoscope.files.matrix import inspect
from isoscope.files.selection import Selection
from isoscope.files.upload import NamedFile, Upload
from tests.factories import embedding, store


def hidden_side(n: int, d: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a corpus [n, d] with labels hidden by a strong direction, m queries near rows, and those rows."""
    random = np.random.default_rng(3)
    corpus = random.normal(size=(n, d)).astype(np.float32)
    corpus[:, 0] = 5 * np.sign(corpus[:, 0]) + corpus[:, 0]
    relevant = random.integers(0, n, m)
    return corpus, (corpus[relevant] + 0.7 * random.normal(size=(m, d))).astype(np.float32), relevant


def add_rows(context: Context, folder: Path, prefix: str, x: np.ndarray, name: str = "", **columns: Any) -> str:
    """Add a measured embedding of rows [n, d], named by the prefix (d0, d1 ...), with columns side and home."""
    rows = (
        {"_id": f"{prefix}{row}", "side": "ab"[int(vec[1] > 0)], "home": f"h{row // 3}", "embedding": vec.tolist()}
        for row, vec in enumerate(x)
    )
    content = "\n".join(map(json.dumps, rows)).encode()
    path = folder / f"{prefix}.jsonl"
    path.write_bytes(content)
    check = inspect(Upload((NamedFile(path, path.name),)), Selection(vectors="embedding", names="_id"))
    data = {"inspection": check.model_dump(mode="json"), "selection": check.selection.model_dump(mode="json")}
    shape = {"n": len(x), "d": x.shape[1]}
    row = embedding(name or prefix, filename=path.name, format="jsonl", **data | shape | columns)
    digest = store(context, content)
    row.files = [EmbeddingFile(position=0, filename=path.name, file_sha256=digest)]
    with context.sessions.begin() as session:
        session.merge(StoredFile(sha256=digest, size_bytes=len(content)))
        session.flush()
        session.add(row)
    return row.id
