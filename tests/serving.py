"""`isoscope serve` as a subprocess, the web process alone, and the web application in this process."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import httpx2
import psutil
import uvicorn
from fastapi import FastAPI

from app.core.process import LOG_NAME
from app.core.settings import Settings
from app.web.connections import CONNECTION_SETTINGS
from tests.ports import free_port
from tests.waiting import patience, wait_for

T = TypeVar("T")


def empty_settings(data_dir: Path, databases: list[Path]) -> Settings:
    """Return settings of an empty SQLite dashboard. Copying its databases is faster than migrating."""
    settings = Settings(data_dir=data_dir, sample=False)
    settings.create_folders()
    for file in databases:
        shutil.copy(file, settings.root)
    return settings


def is_healthy(url: str) -> bool:
    with suppress(httpx2.TransportError):
        return httpx2.get(f"{url}/api/health", timeout=5).is_success
    return False


class Serving:
    def __init__(self, data_dir: Path, port: int, environment: dict[str, str]) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.data_dir = data_dir
        self._environment = os.environ | {
            "ISOSCOPE_DATA_DIR": str(data_dir),
            "ISOSCOPE_PORT": str(port),
            "ISOSCOPE_DEVICE": "cpu",
            "ISOSCOPE_SAMPLE": "false",
            **environment,
        }
        self._log = data_dir.with_suffix(".log")
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "isoscope", "serve"],
                env=self._environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self.wait_for(self.answers, "an answer of /api/health", seconds=60)

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(60)

    def get(self, path: str) -> Any:
        return httpx2.get(self.url + path, timeout=30).raise_for_status().json()

    def post(self, path: str, seconds: float = 60, **arguments: Any) -> Any:
        answer = httpx2.post(self.url + path, timeout=seconds, **arguments)
        assert answer.is_success, answer.text
        return answer.json()

    def children(self, word: str) -> list[psutil.Process]:
        children = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # a short-lived process
                if word in " ".join(process.cmdline()):
                    children.append(process)
        return sorted(children, key=lambda process: process.create_time())

    def child(self, word: str) -> psutil.Process:
        return self.children(word)[-1]

    def run_processes(self) -> dict[str, psutil.Process]:
        """Return the processes of runs, by the id of their run, whose log they have open."""
        processes: dict[str, psutil.Process] = {}
        for process in self.children("multiprocessing.forkserver"):
            with suppress(psutil.NoSuchProcess):
                paths = [Path(file.path) for file in process.open_files()]
                processes |= {path.parent.name: process for path in paths if path.name == LOG_NAME}
        return processes

    def measure(self, name: str, content: bytes, **options: Any) -> str:
        created = self.post("/api/embeddings?commit=auto", files={"file": (name, content)}, **options)
        address = f"/api/embeddings/{created['id']}"
        self.wait_for(lambda: self.get(address)["status"] == "ready", "measurements")
        return str(created["id"])

    def wait_for(self, look: Callable[[], T | None], label: str, seconds: float = 120) -> T:
        end = time.monotonic() + seconds * patience()
        while time.monotonic() < end:
            if result := look():
                return result
            assert self.process.poll() is None, f"the server ended:\n{self.log()}"
            time.sleep(0.2)
        raise AssertionError(f"waited {seconds} s in vain for {label}:\n{self.log()}")

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-5000:]

    def answers(self) -> bool:
        return is_healthy(self.url)


@contextmanager
def serve_in_thread(app: FastAPI, port: int = 0) -> Iterator[str]:
    """Serve the application from a thread of this process and yield its address.

    A subprocess takes seconds of imports.
    """
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(
        app, log_config=None, log_level="warning", server_header=False, timeout_graceful_shutdown=1,
        **CONNECTION_SETTINGS,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        wait_for(lambda: server.started, 60)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@contextmanager
def web_process(settings: Settings, port: int = 0) -> Iterator[str]:
    port = port or free_port()
    environment = os.environ | {
        "ISOSCOPE_DATA_DIR": str(settings.data_dir), "ISOSCOPE_DATABASE_URL": settings.database_url,
        "ISOSCOPE_QUEUE_URL": settings.queue_url, "ISOSCOPE_PORT": str(port), "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    if settings.access_token is not None:
        environment["ISOSCOPE_ACCESS_TOKEN"] = settings.access_token.get_secret_value()
    address = f"http://127.0.0.1:{port}"
    with subprocess.Popen([sys.executable, "-m", "app"], env=environment) as process:

        def answers() -> bool:
            assert process.poll() is None, f"the web process ended with {process.returncode}"
            return is_healthy(address)

        try:
            wait_for(answers, 180)
            yield address
        finally:
            process.terminate()
