"""Functions that the tests of the sandbox run in its process, which imports them by name."""

import os
import resource
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

from isoscope.core.errors import TooLargeError


def add(a, b):
    return a + b


def modules():
    return sorted(sys.modules)


def limits(*_):
    return {name: resource.getrlimit(getattr(resource, name))[0] for name in ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_CORE")}


def refuse():
    raise TooLargeError("too many rows", field="vectors")


def fail():
    raise KeyError("a mistake of ours")


def allocate(size_bytes):
    return len(bytearray(size_bytes))


def spin():
    while True:
        pass


def misbehave(root: str, parent: int, server: int, port: int, folder: Path) -> dict[str, bool]:
    """Try everything that a sandbox forbids; return what worked. Paths as text are not granted."""
    key = f"{root}/session.key"
    attempts = {
        "read the token": lambda: os.environ["ISOSCOPE_ACCESS_TOKEN"],
        "read the session key": lambda: Path(key).read_bytes(),
        "read the parent's environment": lambda: Path(f"/proc/{parent}/environ").read_bytes(),
        "use a descriptor of the parent": lambda: socket.socket(fileno=os.dup(server)).close(),
        "open the parent's memory": lambda: Path(f"/proc/{parent}/mem").open("rb").close(),
        "write the database": lambda: write_row(f"{root}/isoscope.sqlite"),
        "write a file": lambda: Path(root, "written").write_text("x"),
        "link to a file": lambda: (folder / f"link-{os.getpid()}").symlink_to(key),
        "link to a file outside": lambda: os.link(key, folder / f"hard-{os.getpid()}"),
        "change permissions": lambda: Path(key).chmod(0o644),
        "truncate a file": lambda: os.truncate(f"{root}/spare", 0),
        "connect": lambda: socket.create_connection(("127.0.0.1", port), timeout=5).close(),
        "send without a connection": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
        "run a program": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
        "signal the parent": lambda: os.kill(parent, 0),
        "limit the parent": lambda: resource.prlimit(parent, resource.RLIMIT_CORE),
    }
    return {name: succeeds(attempt) for name, attempt in attempts.items()}


def succeeds(attempt) -> bool:
    try:
        attempt()
    except (OSError, KeyError, sqlite3.Error):
        return False
    return True


def write_row(database):
    connection = sqlite3.connect(database)
    connection.execute("create table if not exists t (x)")
    connection.close()


def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)


def behave(file: Path, folder: Path):
    """Do what parsers do: read a file, write another, use libraries with threads.

    Return the text, the filters of all threads and the environment of this process at its start.
    """
    import numpy as np  # noqa: PLC0415

    (folder / "copy").mkdir()
    (folder / "copy" / "text").write_text(file.read_text())
    assert (np.ones((300, 300)) @ np.ones((300, 300))).sum() == 300**3
    idle = Thread(target=time.sleep, args=(1,))
    idle.start()
    status = [path.read_text() for path in Path("/proc/self/task").glob("*/status")]
    idle.join()
    filters = [text.split("Seccomp:")[1].split()[0] for text in status]
    return (folder / "copy" / "text").read_text(), filters, Path("/proc/self/environ").read_text()


def read_replaced(file: Path, folder: Path):
    """Read a file, the first time only after it was replaced."""
    if not (folder / "started").exists():
        first = file.stat()
        (folder / "started").touch()
        while os.path.samestat(file.stat(), first):
            time.sleep(0.01)
    return file.read_text()


class Trap:
    """A result that makes a folder where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)
