"""Time several functions in interleaved rounds, and describe the machine."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

ROUNDS = 7
THREADS = 2
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def interleave(
    functions: Mapping[str, Callable[[], object]], rounds: int = ROUNDS, finish: Callable[[], object] = lambda: None
) -> dict[str, list[float]]:
    """Return the seconds of each function in each round, after a warm-up round: A B C, B C A, C A B, ...

    Rounds begin with different functions, because the state of caches and memory affects the next function.
    ``finish`` waits for a device that works asynchronously, such as a GPU. The environment variable ``CLOCK``
    selects wall time or, for cores that other work shares, processor time.
    """
    clock = requested_clock()
    times: dict[str, list[float]] = {name: [] for name in functions}
    names = list(functions)
    for number in range(rounds + 1):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            finish()
            start = clock()
            functions[name]()
            finish()
            if number > 0:
                times[name].append(clock() - start)
    return times


def ratio(times: list[float], base: list[float]) -> float:
    """Return the median over rounds of the ratio of two times: a slow round slows both."""
    return statistics.median(seconds / base_seconds for seconds, base_seconds in zip(times, base, strict=True))


def table(times: Mapping[str, list[float]], base: str) -> str:
    """Return a table in Markdown of median seconds by function, and their ratios to the function named ``base``."""
    rows = [
        f"| {name} | {statistics.median(seconds):.3g} | {ratio(seconds, times[base]):.3g} |"
        for name, seconds in times.items()
    ]
    return "\n".join(["| | seconds | ratio |", "|---|---|---|", *rows])


def requested_clock() -> Callable[[], float]:
    """Return the clock of the environment variable ``CLOCK``: "wall", the default, or "cpu"."""
    return CLOCKS[os.environ.get("CLOCK", "wall")]


def requested_rounds() -> int:
    """Return the number of rounds, from the environment variable ``ROUNDS`` if set."""
    return int(os.environ.get("ROUNDS", ROUNDS))


def requested_threads() -> int:
    """Return the number of threads, from the environment variable ``THREADS`` if set."""
    return int(os.environ.get("THREADS", THREADS))


def machine(*packages: str) -> str:
    """Return a sentence with processor, cores, memory, system, Python and the versions of packages."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    return (
        f"{_processor()}, {os.cpu_count()} cores, {memory_gib:.0f} GiB of memory, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}, {versions}."
    )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
