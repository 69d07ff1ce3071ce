"""Requests refused before their body has arrived: the rest is not read."""

import socket
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr

from app.main import create_app
from tests.serving import empty_settings, serve_in_thread

TOKEN = "a-secret-of-some-length"


@pytest.fixture(scope="module")
def port(tmp_path_factory, empty_databases):
    settings = empty_settings(tmp_path_factory.mktemp("refused") / "data", empty_databases)
    with serve_in_thread(create_app(settings.model_copy(update={"access_token": SecretStr(TOKEN)}))) as url:
        yield urlsplit(url).port


def answer_until_end(port, request, length, sent=b""):
    head = f"{request} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode() + sent)
        return b"".join(iter(lambda: connection.recv(10_000), b"")).lower()


@pytest.mark.parametrize(
    ("request_line", "status"),
    [("POST /api/embeddings", 401), ("POST /embeddings", 303), ("POST /login", 413), ("POST /api/health", 405)],
)
def test_early_refusal_closes_connection(port, request_line, status):
    answer = answer_until_end(port, request_line, 900_000)
    assert answer.startswith(f"http/1.1 {status} ".encode())
    assert b"connection: close" in answer


def test_login_takes_four_kilobytes_and_keeps_connection(port):
    body = f"token={TOKEN}&next=/{'a' * 3000}".encode()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        head = "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        for _ in range(2):
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = connection.recv(10_000).lower()
            assert answer.startswith(b"http/1.1 303 ")
            assert b"connection: close" not in answer
