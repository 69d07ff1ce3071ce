"""Clients that send almost nothing and reconnect: ``python -m tests.slow_clients PORT KIND N``."""

import asyncio
import http.client
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.core.process import raise_file_limit
from app.core.settings import Settings
from tests.crowd import ANSWERED_SECONDS
from tests.ports import free_port
from tests.serving import is_healthy
from tests.waiting import patience, wait_for

HEADS = {
    "silent": b"",
    "login": b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 4000\r\n\r\n",
    "upload": b"POST /api/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    b"Content-Length: 900000\r\n\r\n",
}
CROWDS = {"login": 500, "upload": 500, "silent": 1100}
PAGE_SECONDS = 5.0
MAX_LOG_BYTES = 1_000_000
DRIP_SECONDS = 1.0
RETURN_SECONDS = 0.5
TOKEN = "a-secret-of-some-length"


async def linger(port: int, head: bytes) -> None:
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with suppress(OSError):
                writer.write(head)
                while True:
                    try:
                        async with asyncio.timeout(DRIP_SECONDS):
                            if not await reader.read(10_000):
                                break
                    except TimeoutError:
                        if head:
                            writer.write(b"a")
            writer.close()
        await asyncio.sleep(RETURN_SECONDS)


async def crowd(port: int, head: bytes, n_clients: int) -> None:
    await asyncio.gather(*(linger(port, head) for _ in range(n_clients)))


@contextmanager
def slow_clients(port: int, kind: str, n_clients: int) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.slow_clients", str(port), kind, str(n_clients)]
    with subprocess.Popen(command) as process:
        try:
            yield
        finally:
            process.kill()


def get_seconds(port: int, path: str) -> float:
    begun = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
    response = connection.getresponse()
    response.read()
    connection.close()
    assert response.status == 200, (path, response.status)
    return time.monotonic() - begun


def withstand_slow_clients(settings: Settings, seconds: float) -> list[str]:
    """Let each crowd occupy a web process limited to 1,024 files; return a line of timings for each."""
    port, log = free_port(), Path(f"{settings.root}.log")
    environment = {
        "ISOSCOPE_DATA_DIR": str(settings.root), "ISOSCOPE_PORT": str(port), "ISOSCOPE_ACCESS_TOKEN": TOKEN,
    }  # fmt: skip
    command = ["sh", "-c", 'ulimit -n 1024 && exec "$0" -m app', sys.executable]
    lines = []
    with log.open("wb") as output, subprocess.Popen(command, env=environment, stderr=output) as process:
        try:
            wait_for(lambda: is_healthy(f"http://127.0.0.1:{port}"), 60)
            for kind, n_clients in CROWDS.items():
                with slow_clients(port, kind, n_clients):
                    time.sleep(1)  # until they have connected
                    begun, slowest = time.monotonic(), dict.fromkeys(("/api/health", "/experiments"), 0.0)
                    while time.monotonic() - begun < seconds:
                        for path in slowest:
                            slowest[path] = max(slowest[path], get_seconds(port, path))
                        time.sleep(0.1)
                health, page = slowest.values()
                assert health < ANSWERED_SECONDS * patience(), kind
                assert page < PAGE_SECONDS * patience(), kind
                lines.append(f"{n_clients} {kind} clients for {seconds:g} s: health {health:.2f} s, "
                             f"a page {page:.2f} s at most, log {log.stat().st_size} bytes")  # fmt: skip
            assert log.stat().st_size < MAX_LOG_BYTES
        finally:
            process.terminate()
    return lines


if __name__ == "__main__":
    raise_file_limit()
    asyncio.run(crowd(int(sys.argv[1]), HEADS[sys.argv[2]], int(sys.argv[3])))
