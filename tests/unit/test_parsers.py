import asyncio
import threading
import time

import psutil
import pytest

from app.core.settings import GIB, Settings
from app.sandbox import run_in_sandbox
from app.web import uploads
from app.web.uploads import Parsers, parser_slots
from isoscope.core.errors import AbandonedError, BusyError


class Client:
    """A request whose client disconnects once ``gone`` is set."""

    gone = False

    async def receive(self):
        while not self.gone:
            await asyncio.sleep(0.1)
        return {"type": "http.disconnect"}


async def ended(tasks):
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_uploads_beyond_slots_and_queue_are_refused():
    at_once = peak = 0
    pair, lock = threading.Barrier(2), threading.Lock()

    def work():
        nonlocal at_once, peak
        with lock:
            at_once += 1
            peak = max(peak, at_once)
        pair.wait(20)
        time.sleep(0.1)  # in which a third would begin
        with lock:
            at_once -= 1
        return "read"

    async def upload_all():
        slots = Parsers(2)
        tasks = [asyncio.create_task(slots.run(Client(), work)) for _ in range(15)]
        return await ended(tasks)

    results = asyncio.run(upload_all())
    refused = [result for result in results if isinstance(result, BusyError)]
    assert (results.count("read"), len(refused), peak) == (2 + 2 * 4, 5, 2)
    assert (str(refused[0]), refused[0].retry_seconds) == ("Too many uploads at once. Try again in 5 seconds.", 5)


@pytest.mark.slow
def test_client_that_disconnects_frees_its_slot():
    client = Client()

    def work():
        return run_in_sandbox(time.sleep, 60, memory_bytes=GIB, seconds=60)

    async def leave():
        slots = Parsers(1)
        reading = asyncio.create_task(slots.run(client, work))
        waiting = asyncio.create_task(slots.run(client, work))
        await asyncio.sleep(1)
        client.gone = True
        results = await ended([reading, waiting])
        return [*results, await slots.run(Client(), lambda: "read")]

    started = time.monotonic()
    first, second, third = asyncio.run(leave())
    assert (type(first), type(second), third) == (AbandonedError, AbandonedError, "read")
    assert time.monotonic() - started < 20
    assert not [child for child in psutil.Process().children() if "app.sandbox" in " ".join(child.cmdline())]


@pytest.mark.parametrize(
    ("cores", "memory", "slots"), [(2, 64 * GIB, 2), (16, 32 * GIB, 4), (4, 4 * GIB, 1), (3, None, 3)]
)
def test_slots_follow_cores_and_memory_unless_set(monkeypatch, tmp_path, cores, memory, slots):
    monkeypatch.setattr(uploads, "machine_cores", lambda: cores)
    monkeypatch.setattr(uploads, "machine_memory", lambda: memory)
    assert parser_slots(Settings(data_dir=tmp_path)) == slots
    assert parser_slots(Settings(data_dir=tmp_path, parse_at_once=7)) == 7
