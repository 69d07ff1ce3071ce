import tempfile

import numpy as np
import psycopg
import pytest
from fastapi.testclient import TestClient
from sqlalchemy.exc import OperationalError

from app.core.settings import MIB, Settings
from app.db.failures import explain_error
from app.db.models import Embedding, StoredFile
from app.main import create_app
from tests.factories import add_experiment
from tests.outages import fill, small_disk
from tests.uploads.good import npy

HTML = {"Accept": "text/html"}
BOUNDARY = {"Content-Type": "multipart/form-data; boundary=x"}


def change_settings(settings, **changes):
    return Settings(**settings.model_dump() | changes)


def stream_upload(size_bytes):
    yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.npy"\r\n\r\n'
    for _ in range(size_bytes // 2**16):
        yield bytes(2**16)
    yield b"\r\n--x--\r\n"


class TestSmallDisk:
    @pytest.fixture
    def settings(self, tmp_path, database):
        with small_disk(tmp_path / "disk", 12 * MIB) as disk:
            yield Settings(data_dir=disk / "data", sample=False, **database)

    def test_upload_that_fills_disk_is_rejected_and_not_stored(self, client, context):
        answer = client.post("/api/embeddings", content=b"", headers={"Content-Length": str(16 * MIB)})
        assert (answer.status_code, answer.json()["field"]) == (507, "file"), "it is rejected unread"
        assert f"The disk that holds {context.settings.root} has " in answer.json()["detail"]
        assert "this needs 16.8 MB." in answer.json()["detail"]
        for path, headers in (("/api/embeddings", {}), ("/embeddings", HTML)):
            answer = client.post(path, content=stream_upload(16 * MIB), headers=BOUNDARY | headers)
            assert answer.status_code == 507
            assert f"The disk that holds {context.settings.files} is full: " in answer.text
            assert " free. Delete something or make room there" in answer.text
            assert not list(context.settings.files.iterdir())
        assert client.get("/api/health").status_code == 200

    def test_database_on_full_disk_returns_507(self, client, context):
        client.get("/experiments")  # opens the database, so that SQLite creates its write-ahead log
        filler = fill(context.settings.root)
        answers = [client.post("/api/datasets/hub", json={"name": "cola"}).status_code for _ in range(100)]
        assert set(answers) <= {201, 507}
        refused = client.post("/api/datasets/hub", json={"name": "cola"})
        assert refused.status_code == 507
        assert f"The disk that holds {context.settings.root} is full: " in refused.json()["detail"]
        assert client.post("/datasets/hub", data={"hub_name": "cola"}, headers=HTML).status_code == 507
        assert client.get("/experiments").status_code == 200
        filler.unlink()
        assert client.post("/api/datasets/hub", json={"name": "cola"}).status_code == 201

    def test_reserve_file_allows_deletion_on_full_disk(self, context):
        settings = change_settings(context.settings, reserve_bytes=2 * MIB)
        spare = settings.root / "reserve"
        with TestClient(create_app(settings), base_url="http://localhost", follow_redirects=False) as client:
            assert spare.stat().st_blocks * 512 >= 2 * MIB
            created = client.post("/api/embeddings", files={"file": ("a.npy", npy(np.eye(300)))}).json()
            experiment = add_experiment(context)
            filler = fill(settings.root)
            assert client.post("/api/datasets/hub", json={"name": "cola"}).status_code == 507
            assert client.delete(f"/api/experiments/{experiment}").status_code == 204
            assert not spare.exists(), "there is no room for it"
            assert client.delete(f"/api/embeddings/{created['id']}").status_code == 204
            assert client.delete("/api/trash").json()["embeddings"] == 1
            filler.unlink()
            client.delete("/api/trash")
            assert spare.exists(), "there is room for it again"


def test_full_temporary_folder_is_named(client, tmp_path, monkeypatch):
    with small_disk(tmp_path / "tmp", 2 * MIB) as disk:
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        answer = client.post("/api/embeddings", content=stream_upload(4 * MIB), headers=BOUNDARY)
        declared = client.post("/api/embeddings", files={"file": ("a.npy", bytes(4 * MIB))})
    assert answer.status_code == 507
    assert f"The disk that holds {disk} is full: " in answer.json()["detail"]
    assert declared.status_code == 507
    assert f"The disk that holds {disk} has 2.10 MB free; this needs 4.19 MB. " in declared.json()["detail"]


def test_reserve_blocks_uploads_and_launches(context):
    settings = change_settings(context.settings, reserve_bytes=10**18)
    with TestClient(create_app(settings), base_url="http://localhost") as client:
        dataset = client.post("/api/datasets/hub", json={"name": "sst2"}).json()
        columns = {"text_columns": ["sentence"], "label_column": "label"}
        sweep = {"dataset_id": dataset["id"], "model": "all-MiniLM-L6-v2", **columns}
        answers = [
            client.post("/api/embeddings", files={"file": ("a.npy", npy(np.eye(3)))}),
            client.post("/api/experiments", json=sweep),
        ]
    for answer in answers:
        assert answer.status_code == 507
        assert f"The disk that holds {settings.root} has " in answer.json()["detail"]
        assert "B free; this needs 1,000,000 TB, 1,000,000 TB of them as a reserve" in answer.json()["detail"]
    with context.sessions() as session:
        assert session.query(Embedding).count() == 0
    assert not list(settings.files.iterdir())
    problem = explain_error(OperationalError("insert", {}, psycopg.errors.DiskFull("no room")), settings)
    assert problem.message == "The disk of the PostgreSQL server is full. Make room there, then try again."


def test_failed_upload_releases_files(client, context, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("unforeseen")

    monkeypatch.setattr("app.training.datasets.read_in_sandbox", fail)
    monkeypatch.setattr("app.embeddings.encodings.read_in_sandbox", fail)
    monkeypatch.setattr("app.embeddings.service.common_format", fail)
    for path, files in (
        ("/api/datasets", {"train": ("a.tsv", b"a\tb\n"), "validation": ("b.tsv", b"a\tc\n")}),
        ("/api/encodings", {"file": ("a.tsv", b"a\tb\n")}),
        ("/api/embeddings", {"file": ("a.npy", npy(np.eye(3)))}),
    ):
        with pytest.raises(RuntimeError, match="unforeseen"):
            client.post(path, files=files)
        assert not list(context.settings.files.iterdir()), path
    with context.sessions() as session:
        assert session.query(StoredFile).count() == 0


def test_space_is_on_page_and_in_api(client, context):
    content = npy(np.eye(100))
    client.post("/api/embeddings", files={"file": ("a.npy", content)})
    (context.settings.runs / "one").mkdir()
    (context.settings.runs / "one" / "weights").write_bytes(bytes(5000))
    space = client.get("/api/space").json()
    assert space["disks"][0]["folder"] == str(context.settings.root)
    assert 0 < space["disks"][0]["free_bytes"] <= space["disks"][0]["total_bytes"]
    uses = {use["kind"]: use["size_bytes"] for use in space["uses"]}
    assert (uses["files"], uses["run folders"]) == (len(content), 5000)
    assert uses["database"] > 0
    page = client.get("/space")
    assert page.status_code == 200
    assert str(context.settings.runs) in page.text
    assert 'href="/space"' in client.get("/").text
