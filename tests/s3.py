"""An S3 service in a subprocess, and a connection to it that can be cut."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any

import boto3

from tests.waiting import wait_for

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
