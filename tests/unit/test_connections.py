import socket
import threading
import time
from contextlib import ExitStack

import pytest
import uvicorn

from app.web import connections
from app.web.connections import CONNECTION_SETTINGS, TimedProtocol
from tests.ports import free_port
from tests.waiting import wait_for


async def hello(scope, receive, send):
    while scope["path"] in ("/slow", "/login") and (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture
def port(monkeypatch):
    """Port of a server that waits one second for the headers of a request."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 1.0)
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


def receive_until(connection, ending):
    """Return the response up to its ending; head and body may arrive separately."""
    answer = b""
    while not answer.endswith(ending):
        chunk = connection.recv(1000)
        assert chunk, answer
        answer += chunk
    return answer


def drip(connection, text, interval):
    """Send one byte at a time until the server answers or closes; return its answer."""
    connection.settimeout(interval)
    for byte in text:
        try:
            connection.sendall(bytes([byte]))
            if (answer := connection.recv(1000)) or not answer:
                return answer
        except TimeoutError:
            continue
        except ConnectionError:
            return b""
    raise AssertionError("the connection was never closed")


HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize("first", [b"", HEAD + b"\r\n"], ids=["a new connection", "the second request"])
def test_slow_headers_time_out(port, first):
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        if first:
            connection.sendall(first)
            assert receive_until(connection, b"hello")
        answer = drip(connection, HEAD + b"X: " + b"a" * 200, interval=0.1)
    assert answer.startswith(b"HTTP/1.1 408") or not answer
    assert 0.8 < time.monotonic() - begun < 8


def test_silent_connection_times_out(connection):
    answer = b"".join(iter(lambda: connection.recv(1000), b""))
    assert answer.startswith(b"HTTP/1.1 408")


def test_slow_login_body_times_out_but_slow_upload_does_not(port):
    body, begun = b"Content-Length: 300\r\n\r\n", time.monotonic()
    with (
        socket.create_connection(("127.0.0.1", port)) as upload,
        socket.create_connection(("127.0.0.1", port)) as login,
    ):
        upload.sendall(b"POST /slow HTTP/1.1\r\nHost: localhost\r\n" + body)
        login.sendall(b"POST /login HTTP/1.1\r\nHost: localhost\r\n" + body)
        answer = drip(login, b"a" * 250, interval=0.1)
        assert answer.startswith(b"HTTP/1.1 408") or not answer
        assert 0.8 < time.monotonic() - begun < 8
        upload.sendall(b"a" * 300)
        assert receive_until(upload, b"hello")


def test_oldest_silent_connections_close_to_make_room(port, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 60.0)
    monkeypatch.setattr(connections, "MAX_WAITING", 3)
    with ExitStack() as stack:
        busy = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        busy.sendall(b"POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n")
        assert receive_until(busy, b"\r\n\r\n").startswith(b"HTTP/1.1 100")
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(5)]
        wait_for(lambda: [a.client for a in list(TimedProtocol._waiting)] == [b.getsockname() for b in silent[2:]])
        for connection, seconds in zip(silent, (10, 10, 0.3, 0.3, 0.3), strict=True):
            connection.settimeout(seconds)
        assert [is_closed(connection) for connection in silent] == [True, True, False, False, False]
        newcomer = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
        newcomer.sendall(HEAD + b"\r\n")
        assert receive_until(newcomer, b"hello")
        busy.sendall(b"a")
        assert receive_until(busy, b"hello")


def is_closed(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def test_too_long_headers_are_refused(connection):
    connection.sendall(HEAD + b"X: " + b"a" * (connections.MAX_HEAD_BYTES + 1000))
    assert connection.recv(1000).startswith(b"HTTP/1.1 400")


def test_slow_body_is_answered(connection):
    connection.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\na")
    assert receive_until(connection, b"hello")
    time.sleep(1.5)
    connection.sendall(b"bc")
    connection.sendall(HEAD + b"\r\n")
    assert receive_until(connection, b"hello")
