"""A connection whose headers never end is closed; one that is merely quiet between two requests is not, for a while."""

import socket
import threading
import time

import pytest
import uvicorn

from app.web import headers
from app.web.headers import CONNECTION_SETTINGS
from tests.ports import free_port
from tests.waiting import wait_for


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture
def port(monkeypatch):
    """The port of a server that gives a request's head one second."""
    monkeypatch.setattr(headers, "HEAD_SECONDS", 1.0)
    port = free_port()
    config = uvicorn.Config(hello, host="127.0.0.1", port=port, lifespan="off", log_level="error",
                            **CONNECTION_SETTINGS)  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_for(lambda: server.started)
    yield port
    server.should_exit = True
    thread.join(20)


@pytest.fixture
def connection(port):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        yield connection


def received(connection, ending):
    """What the other side sends, up to the ending: head and body may come apart."""
    answer = b""
    while not answer.endswith(ending):
        more = connection.recv(1000)
        assert more, answer
        answer += more
    return answer


def drip(connection, text, every):
    """Send a byte at a time until the other side closes, and return what it has answered and after how long."""
    begun = time.monotonic()
    connection.settimeout(every)
    for byte in text:
        try:
            connection.sendall(bytes([byte]))
            if (answer := connection.recv(1000)) or not answer:
                return answer, time.monotonic() - begun
        except TimeoutError:
            continue
        except ConnectionError:
            return b"", time.monotonic() - begun
    raise AssertionError("it was never closed")


HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize("first", [b"", HEAD + b"\r\n"], ids=["a new connection", "the second request"])
def test_headers_that_drip_are_not_waited_for(connection, first):
    if first:
        connection.sendall(first)
        assert received(connection, b"hello")
    answer, seconds = drip(connection, HEAD + b"X: " + b"a" * 200, every=0.1)
    assert answer.startswith(b"HTTP/1.1 408") or not answer
    assert 0.8 < seconds < 8


def test_a_connection_that_says_nothing_is_closed(connection):
    answer = b"".join(iter(lambda: connection.recv(1000), b""))
    assert answer.startswith(b"HTTP/1.1 408")


def test_headers_that_are_too_long_are_refused(connection):
    connection.sendall(HEAD + b"X: " + b"a" * (headers.MAX_HEAD_BYTES + 1000))
    assert connection.recv(1000).startswith(b"HTTP/1.1 400")


def test_a_request_that_takes_its_time_after_its_headers_is_answered(connection):
    connection.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\na")
    assert received(connection, b"hello")
    time.sleep(1.5)
    connection.sendall(b"bc")
    connection.sendall(HEAD + b"\r\n")
    assert received(connection, b"hello")
