"""Interleaved rounds of several ways to do a thing, and the machine that they ran on."""

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
    ways: Mapping[str, Callable[[], object]], rounds: int = ROUNDS, finish: Callable[[], object] = lambda: None
) -> dict[str, list[float]]:
    """Seconds of every way in every round: A B C, B C A, C A B, ..., after one round that is not counted.

    Each round begins with another way, since what a way leaves in caches and memory is the next one's burden.
    ``finish`` waits for a device that works behind the program's back, such as a GPU. The environment variable
    ``CLOCK`` chooses seconds of the wall or, where other work shares the cores, of the processor.
    """
    clock = clock_asked()
    times: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for number in range(rounds + 1):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            finish()
            began = clock()
            ways[name]()
            finish()
            if number > 0:
                times[name].append(clock() - began)
    return times


def ratio(times: list[float], base: list[float]) -> float:
    """The median over the rounds of one way's time in units of another's: a slow round slows both."""
    return statistics.median(one / other for one, other in zip(times, base, strict=True))


def table(times: Mapping[str, list[float]], base: str) -> str:
    """Markdown: a row for every way, with its median seconds and its ratio to the way called ``base``."""
    rows = [f"| {name} | {statistics.median(of):.3g} | {ratio(of, times[base]):.3g} |" for name, of in times.items()]
    return "\n".join(["| | seconds | ratio |", "|---|---|---|", *rows])


def clock_asked() -> Callable[[], float]:
    """The clock of the environment variable ``CLOCK``: of the wall, or "cpu", of the processor."""
    return CLOCKS[os.environ.get("CLOCK", "wall")]


def rounds_asked() -> int:
    """The number of rounds: ``ROUNDS``, or that of the environment variable of this name."""
    return int(os.environ.get("ROUNDS", ROUNDS))


def threads_asked() -> int:
    """The number of threads: ``THREADS``, or that of the environment variable of this name."""
    return int(os.environ.get("THREADS", THREADS))


def machine(*packages: str) -> str:
    """One sentence: processor, cores, memory, system, Python and the versions of ``packages``."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    return (
        f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB of memory, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}, {versions}."
    )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
