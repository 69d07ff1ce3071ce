import pytest
from sqlalchemy import func, select

from app.db.models import Embedding, EmbeddingStatus
from app.sandbox import run_in_sandbox
from tests.uploads.hostile import hostile
from tests.uploads.reading import read_uploads

MIB = 2**20


@pytest.fixture(scope="module")
def uploads():
    files = hostile()
    assert len(files) >= 300
    return files


def test_hostile_upload_is_rejected_or_left_to_inspection(client, context, uploads):
    statuses = {}
    # Inspection rejects each upload below. Here every sixth, and all whose names are hostile, cross the network.
    for label in [*[*uploads][::6], *[label for label in uploads if label.startswith("a file called")]]:
        name, content = uploads[label]
        answer = client.post("/api/embeddings?commit=auto", files={"file": (name, content)})
        statuses[label] = answer.status_code
        assert answer.status_code == 201 or answer.json()["detail"], label
    assert set(statuses.values()) <= {201, 413, 415, 422}
    with context.sessions() as session:
        waiting = session.scalar(select(func.count()).where(Embedding.status == EmbeddingStatus.INSPECTING))
    assert waiting == list(statuses.values()).count(201) > 0
    outside = [path for path in context.settings.root.parent.rglob("*") if context.settings.root not in path.parents]
    assert outside == [context.settings.root]


def test_inspection_rejects_hostile_uploads_in_little_memory(tmp_path, uploads):
    for i, (_, content) in enumerate(uploads.values()):
        (tmp_path / str(i)).write_bytes(content)
    names = [name for name, _ in uploads.values()]
    results, peak = run_in_sandbox(read_uploads, tmp_path, names, memory_bytes=2048 * MIB, seconds=300)
    assert {label: outcome for label, outcome in zip(uploads, results, strict=True) if outcome != "refused"} == {}
    assert peak < 768 * MIB
