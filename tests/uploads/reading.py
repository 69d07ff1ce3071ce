"""Work of the sandbox's process in tests; it imports this by name."""

import re
import resource
import sys
from pathlib import Path

from isoscope.core.errors import IsoscopeError
from isoscope.files.matrix import inspect
from isoscope.files.upload import NamedFile, Upload


def read_uploads(folder: Path, names: list[str]) -> tuple[list[str], int]:
    return [_outcome(folder / str(i), name) for i, name in enumerate(names)], _peak()


def _outcome(path: Path, name: str) -> str:
    try:
        inspect(Upload((NamedFile(path, name),)))
    except IsoscopeError:
        return "refused"
    except Exception as error:  # noqa: BLE001 -- the test names the file
        return repr(error)
    return "taken for data"


def _peak() -> int:
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # On Linux, getrusage may return the peak of the parent process.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0])
