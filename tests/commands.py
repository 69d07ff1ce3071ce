"""Run `isoscope ...` in this process, which saves the seconds of imports."""

import io
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from isoscope.cli import main

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def isoscope(folder: Path, *words: str, **environment: str) -> CompletedProcess[str]:
    out, err = io.StringIO(), io.StringIO()
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name, value in {"ISOSCOPE_DATA_DIR": str(folder / "data"), **environment}.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["isoscope", *words])
        try:
            code = main()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    return CompletedProcess(words, code, out.getvalue(), err.getvalue())
