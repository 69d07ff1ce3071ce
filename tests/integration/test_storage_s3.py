import hashlib
import os
import random
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread, Timer
from typing import Any
from uuid import uuid4

import boto3
import numpy as np
import pytest

from app.core.settings import Settings
from app.db.config import RunConfig
from app.db.models import Dataset, StoredFile
from app.db.types import utcnow
from app.operations.doctor import OK, PROBLEM, check_storage
from app.storage import open_storage
from app.storage.s3 import PART_BYTES
from isoscope.core.errors import NotFoundError, UnavailableError
from tests.ports import free_port
from tests.uploads.good import npy
from tests.waiting import wait_for
from workers import files
from workers.training.data import load_columns

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1"}


class S3Server:
    def __init__(self, port: int, log: Path, **environment: str) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
                env=os.environ | environment, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        wait_for(self._answers, seconds=60)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        assert self._process.poll() is None, "the S3 server ended"
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


class Bucket:
    def __init__(self, server: S3Server, name: str) -> None:
        self.name = name
        self._client: Any = boto3.client(
            "s3", endpoint_url=server.url, aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"], region_name=CREDENTIALS["AWS_DEFAULT_REGION"],
        )  # fmt: skip
        self._client.create_bucket(Bucket=name)

    def keys(self) -> list[str]:
        listed = self._client.list_objects_v2(Bucket=self.name)
        return [entry["Key"] for entry in listed.get("Contents", [])]

    def read(self, key: str) -> bytes:
        content: bytes = self._client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return content

    def write(self, key: str, content: bytes) -> None:
        self._client.put_object(Bucket=self.name, Key=key, Body=content)

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=self.name, Key=key)

    def close(self) -> None:
        self._client.close()


class Line(ThreadingTCPServer):
    """Forwards bytes both ways. Once cut, all connections break, until it is mended."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.port = port
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.bytes_left: float = float("inf")
        self.refused: bytes | None = None
        """Blocks that start with these bytes are refused."""
        self._thread = Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def cut(self, after_bytes: int = 0) -> None:
        self.bytes_left = after_bytes

    def mend(self) -> None:
        self.bytes_left = float("inf")

    def stop(self) -> None:
        self.cut()
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Connection(BaseRequestHandler):
    server: Line

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.port)) as upstream:
            answers = Thread(target=self._pass, args=(upstream, self.request), daemon=True)
            answers.start()
            self._pass(self.request, upstream)
            answers.join()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while block := source.recv(2**16):
                self.server.bytes_left -= len(block)
                refused = self.server.refused is not None and block.startswith(self.server.refused)
                if refused or self.server.bytes_left < 0:
                    break
                target.sendall(block)
            for end in (source, target):
                end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other side is gone


TSV = b"sentence\tlabel\na good film\t1\na dull plot\t0\n"
TWO_PARTS = random.Random(0).randbytes(2 * PART_BYTES + 5)


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    server = S3Server(free_port(), tmp_path_factory.mktemp("s3") / "log")
    yield server
    server.stop()


@pytest.fixture
def line(s3):
    line = Line(s3.port)
    yield line
    line.stop()


@pytest.fixture
def bucket(s3):
    bucket = Bucket(s3, f"bucket-{uuid4().hex}")
    yield bucket
    bucket.close()


@pytest.fixture
def settings(tmp_path, monkeypatch, bucket, line):
    """A new data folder, and files in a new bucket behind a line that can be cut."""
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": line.url}.items():
        monkeypatch.setenv(name, value)
    settings = Settings(data_dir=tmp_path / "data", sample=False, storage_url=f"s3://{bucket.name}/some/prefix")
    settings.create_folders()
    return settings


@pytest.fixture
def storage(settings):
    return open_storage(settings)


@pytest.fixture
def cached(settings):
    return lambda: sorted(path.name for path in settings.cache.iterdir())


def clear_cache(settings):
    for path in settings.cache.iterdir():
        path.unlink()


def upload(client, content, query=""):
    return client.post(f"/api/embeddings{query}", files={"file": ("cloud.npy", content)})


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def test_upload_is_stored_and_measured_through_cache(client, work, cloud, bucket, settings, cached):
    content = npy(cloud)
    created = upload(client, content, "?commit=auto").json()
    assert (bucket.keys(), bucket.read(bucket.keys()[0])) == ([f"some/prefix/{sha256(content)}"], content)
    assert not settings.files.exists()
    clear_cache(settings)
    assert work(background=True) == 3
    measured = client.get(f"/api/embeddings/{created['id']}").json()
    assert (measured["status"], measured["n"], measured["d"]) == ("ready", 400, 8)
    hashes = [key.rpartition("/")[2] for key in bucket.keys()]  # noqa: SIM118 - not a dictionary
    assert sha256(content) in hashes
    assert len(hashes) > 1, "map files too"
    assert cached() == sorted(hashes)


@pytest.mark.long
def test_dashboard_runs_on_postgresql_and_a_bucket(serving, settings, empty_postgresql_url, cloud, bucket):
    server = serving(ISOSCOPE_STORAGE_URL=settings.storage_url, ISOSCOPE_DATABASE_URL=empty_postgresql_url)
    created = server.post("/api/embeddings?commit=auto", files={"file": ("cloud.npy", npy(cloud))})
    assert bucket.keys() == [f"some/prefix/{sha256(npy(cloud))}"]
    (server.data_dir / "cache" / sha256(npy(cloud))).unlink(missing_ok=True)
    path = f"/api/embeddings/{created['id']}"
    server.wait_for(lambda: server.get(path)["status"] in {"ready", "failed"}, "the measurements")
    assert (server.get(path)["error"], server.get(path)["status"]) == (None, "ready")
    assert server.stop() == 0
    assert not list(server.data_dir.glob("*.sqlite"))


def test_purging_deletes_objects_once_storage_answers(client, cloud, bucket, cached, context, line, caplog):
    first, second = (upload(client, npy(cloud)).json()["id"] for _ in range(2))
    assert len(bucket.keys()) == 1
    client.delete(f"/api/embeddings/{first}")
    client.delete("/api/trash")
    assert len(bucket.keys()) == 1
    client.delete(f"/api/embeddings/{second}")
    client.delete("/api/trash")
    assert bucket.keys() == cached() == []
    created = upload(client, npy(cloud)).json()
    line.cut()
    assert client.delete(f"/api/embeddings/{created['id']}").is_success
    assert client.delete("/api/trash").json() == {"embeddings": 1, "freed_bytes": 0}
    assert client.get("/api/embeddings").json() == []
    assert f"The bytes of {sha256(npy(cloud))} stay in the storage, though no row needs them." in caplog.text
    line.mend()
    again = upload(client, npy(cloud)).json()
    client.delete(f"/api/embeddings/{again['id']}")
    client.delete("/api/trash")
    assert bucket.keys() == []


def test_broken_upload_leaves_nothing_and_pages_say_so(client, context, bucket, line, cached, cloud):
    line.cut(after_bytes=PART_BYTES + 2**20)
    answer = upload(client, npy(np.frombuffer(TWO_PARTS[:-5], dtype=np.float32).reshape(-1, 8)))
    assert answer.status_code == 503
    assert "The storage of files cannot be reached at the moment. Try again later" in answer.json()["detail"]
    assert client.get("/api/embeddings").json() == []
    with context.sessions() as session:
        assert session.query(StoredFile).count() == 0
    assert bucket.keys() == cached() == []
    line.cut()
    answer = client.post("/embeddings", files={"file": ("cloud.npy", npy(cloud))}, headers={"accept": "text/html"})
    assert (answer.status_code, "The storage of files cannot be reached at the moment." in answer.text) == (503, True)


def test_job_waits_for_storage_then_fails(client, work, cloud, line, settings, monkeypatch):
    monkeypatch.setattr(files, "RETRY_PAUSES_SECONDS", (0.1,) * 50)
    created = upload(client, npy(cloud)).json()
    clear_cache(settings)
    line.cut()
    Timer(1, line.mend).start()
    work()
    assert client.get(f"/api/embeddings/{created['id']}").json()["status"] == "draft"
    monkeypatch.setattr(files, "RETRY_PAUSES_SECONDS", (0.01,))
    created = upload(client, npy(cloud)).json()
    clear_cache(settings)
    line.cut()
    work()
    failed = client.get(f"/api/embeddings/{created['id']}").json()
    assert failed["status"] == "failed"
    assert failed["error"].startswith("The storage of files cannot be reached at the moment.")


def test_damaged_object_is_never_read(client, work, cloud, bucket, settings, cached):
    created = upload(client, npy(cloud), "?commit=auto").json()
    clear_cache(settings)
    bucket.write(bucket.keys()[0], npy(cloud + 1))
    work()
    failed = client.get(f"/api/embeddings/{created['id']}").json()
    assert failed["status"] == "failed"
    assert f"is damaged in the storage: its {len(npy(cloud)):,} bytes have the SHA-256" in failed["error"]
    assert cached() == []


def test_dataset_rows_come_from_bucket(client, context, bucket, settings):
    answer = client.post("/api/datasets", files={"train": ("train.tsv", TSV), "validation": ("v.tsv", TSV + TSV[15:])})
    assert answer.status_code == 201
    assert len(bucket.keys()) == 2
    clear_cache(settings)
    config = RunConfig(
        model="tiny-bert", text_columns=["sentence"], label_column="label", label_names=["0", "1"],
        regularizer="none", lam=0.0, seed=0, epochs=1,
    )  # fmt: skip
    with context.sessions() as session:
        dataset = session.get(Dataset, answer.json()["id"])
    train, validation = load_columns(dataset, config, context.settings)
    assert train.columns["sentence"] == ["a good film", "a dull plot"]
    assert len(validation.columns["label"]) == 4


def test_parts_are_read_concurrently_and_a_break_leaves_nothing(storage, bucket, settings, cached, line):
    stored = storage.write(BytesIO(TWO_PARTS), len(TWO_PARTS))
    assert (stored.sha256, stored.size_bytes) == (sha256(TWO_PARTS), len(TWO_PARTS))
    assert sha256(bucket.read(bucket.keys()[0])) == stored.sha256
    clear_cache(settings)
    assert storage.local_path(stored.sha256).read_bytes() == TWO_PARTS
    clear_cache(settings)
    with ThreadPoolExecutor(2) as threads:
        paths = list(threads.map(lambda _: open_storage(settings).local_path(stored.sha256), range(2)))
    assert {sha256(path.read_bytes()) for path in paths} == {stored.sha256}
    assert cached() == [stored.sha256]
    clear_cache(settings)
    line.cut(after_bytes=PART_BYTES + 2**20)
    with pytest.raises(UnavailableError, match="cannot be reached at the moment"):
        storage.local_path(stored.sha256)
    assert cached() == []


def test_stored_file_is_sent_once_and_needs_credentials(storage, line, monkeypatch, settings):
    stored = storage.write(BytesIO(TWO_PARTS), len(TWO_PARTS))
    line.cut(after_bytes=10_000)
    assert storage.write(BytesIO(TWO_PARTS), len(TWO_PARTS)) == stored
    for name in CREDENTIALS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    with pytest.raises(UnavailableError, match=r"refuses this server\. Whoever runs it has to check AWS_ACCESS_KEY_ID"):
        open_storage(settings).write(BytesIO(b"bytes"), 10)


def test_missing_bucket_and_refused_credentials_are_reported(settings, monkeypatch, tmp_path):
    storage = open_storage(settings.model_copy(update={"storage_url": "s3://no-such-bucket"}))
    for verb in (storage.exists, storage.local_path, lambda _: storage.write(BytesIO(b"bytes"), 10)):
        with pytest.raises(UnavailableError, match="has no such bucket"):
            verb("0" * 64)
    server = S3Server(free_port(), tmp_path / "log", INITIAL_NO_AUTH_ACTION_COUNT="0")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    try:
        with pytest.raises(UnavailableError, match="The storage of files refuses this server"):
            open_storage(settings).write(BytesIO(b"bytes"), 10)
    finally:
        server.stop()


def test_missing_or_truncated_objects_are_noticed(storage, bucket, settings):
    assert list(storage.list_files()) == []
    stored = storage.write(BytesIO(b"bytes"), 10)
    ((name, stored_at),) = storage.list_files()
    assert name == stored.sha256
    assert abs((utcnow() - stored_at).total_seconds()) < 60
    stored = storage.write(BytesIO(b"bytes"), 10)
    clear_cache(settings)
    bucket.delete(bucket.keys()[0])
    assert not storage.exists(stored.sha256)
    with pytest.raises(NotFoundError, match=f"The file {stored.sha256[:12]}… is gone from the storage"):
        storage.local_path(stored.sha256)
    stored = storage.write(BytesIO(b"whole"), 10)
    bucket.write(bucket.keys()[0], b"half")
    storage.write(BytesIO(b"whole"), 10)
    assert bucket.read(f"some/prefix/{stored.sha256}") == b"whole"
    for name in ["../secret", "", "A" * 64]:
        for verb in (storage.local_path, storage.exists, storage.delete):
            with pytest.raises(NotFoundError, match="Expected a file's SHA-256"):
                verb(name)


def test_unreadable_bucket_is_problem_for_doctor(settings, bucket, cached, line):
    assert list(check_storage(settings)) == [(OK, "A file was written, read back and removed.")]
    line.refused = f"GET /{bucket.name}/some/prefix/".encode()
    [(level, sentence, _)] = check_storage(settings)
    assert level == PROBLEM
    assert sentence.startswith("A file could not be kept and read back: The storage of files cannot be reached")
    assert cached() == bucket.keys() == []
