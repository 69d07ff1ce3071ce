"""Functions that the tests of the sandbox run in its process, which imports them by name."""

import os
import resource
import sys
import time

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


def sleep(seconds):
    time.sleep(seconds)


def spin():
    while True:
        pass


def crash():
    os.abort()
