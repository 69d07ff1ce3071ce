import os
import socket
import stat
import subprocess
import sys

import httpx2
import pytest

from app.core.peer import NOBODY, peer_uid
from app.operations.doctor import check_access
from app.web.tokens import TokenRequest, create_token
from tests.serving import web_process
from tests.uploads.good import npy

OTHER_UID = 65534
ASK = f"""
import os, sys, httpx2
client = httpx2.Client(base_url=sys.argv[1], headers=dict(zip(sys.argv[3::2], sys.argv[4::2])), timeout=20)
client.get("/api/health")  # late imports, which the other user may not read
client.close()
os.setuid({OTHER_UID})
print(httpx2.request("GET", sys.argv[1] + sys.argv[2], headers=dict(zip(sys.argv[3::2], sys.argv[4::2]))).text)
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="Only root can become another user.")


def ask_as_other_user(address, path, *headers):
    command = [sys.executable, "-c", ASK, address, path, *headers]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@as_root
def test_other_user_needs_token(context, address):
    assert httpx2.get(f"{address}/api/space").status_code == 200
    for headers in ([], ["X-Forwarded-For", "10.0.0.1"], ["Authorization", "Bearer wrong"], ["Cookie", "session=x"]):
        assert "another user of this machine sent this request" in ask_as_other_user(address, "/api/space", *headers)
    page = ask_as_other_user(address, "/embeddings", "Accept", "text/html")
    assert "another user of this machine sent this request" in page
    assert '<a href="/access">' not in page
    secret = create_token(context, TokenRequest(name="Ada"))[1]
    assert "reserve_bytes" in ask_as_other_user(address, "/api/space", "Authorization", f"Bearer {secret}")
    assert "ok" in ask_as_other_user(address, "/api/health")


@as_root
@pytest.mark.slow
def test_other_user_cannot_read_files(migrated, cloud):
    migrated.root.chmod(0o755)
    with web_process(migrated) as address:
        response = httpx2.post(f"{address}/api/embeddings", files={"file": ("cloud.npy", npy(cloud))})
        assert response.status_code == 201
    assert stat.S_IMODE(migrated.root.stat().st_mode) == 0o700
    new_files = [path for path in migrated.files.rglob("*") if path.is_file()]
    assert new_files
    assert [path for path in new_files if path.stat().st_mode & 0o077] == []
    look = f"import os; os.setuid({OTHER_UID}); open({str(migrated.sqlite_files[0])!r})"
    answer = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=False)
    assert "PermissionError" in answer.stderr


def test_closed_connection_has_no_owner():
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        address = client.getsockname()
        assert peer_uid(address, server.getsockname()) == os.geteuid()
        accepted, _ = server.accept()
        client.close()
        assert peer_uid(address, server.getsockname()) == NOBODY
        accepted.close()
    assert peer_uid(("testclient", 1), ("testserver", 80)) is None


def test_shared_folder_keeps_its_mode(settings):
    settings.root.mkdir(parents=True)
    settings.root.chmod(0o1777)
    settings.create_folders()
    assert stat.S_IMODE(settings.root.stat().st_mode) == 0o1777


def test_doctor_warns_if_users_cannot_be_told_apart(settings, monkeypatch):
    assert [level for level, *_ in check_access(settings) if level == "warning"] == []
    monkeypatch.setattr("app.operations.doctor.peer_uid", lambda client, server: None)
    (warning,) = [result for result in check_access(settings) if result[0] == "warning"]
    assert "Every user of this machine has access" in warning[1]
    assert "ISOSCOPE_ACCESS_TOKEN" in warning[2]
