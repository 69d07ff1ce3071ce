import asyncio
import time

import httpx2
import psutil

from app.context import create_context
from app.db.models import Run, RunStatus
from benchmarks._many_runs import fill
from tests.serving import web_process

WATCHERS, POLL_SECONDS, WATCHED_SECONDS = 50, 2.0, 30.0
MAX_SHARE = 0.15


async def watch(url, path, number, until):
    """Poll as htmx does, on a separate connection."""
    headers = {"HX-Request": "true", "HX-Current-URL": url + path, "Accept": "text/html"}
    n_polls = 0
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=30) as client:
        await asyncio.sleep(number / WATCHERS * POLL_SECONDS)
        while time.monotonic() < until:
            assert (await client.get(path)).status_code == 200
            n_polls += 1
            await asyncio.sleep(POLL_SECONDS)
    return n_polls


async def run_watchers(url, path, until):
    return sum(await asyncio.gather(*(watch(url, path, number, until) for number in range(WATCHERS))))


def test_fifty_watchers_take_little_of_a_core(empty_dashboard, figures):
    context = create_context(empty_dashboard)
    (experiment,) = fill(context, runs=30, experiments=1, steps=200, waiting=10)
    with context.sessions.begin() as session:
        run = session.query(Run).where(Run.status == RunStatus.QUEUED).first()
        run.status = RunStatus.RUNNING
    context.close()
    with web_process(empty_dashboard) as url:
        path = f"/experiments/{experiment}"
        (web,) = [child for child in psutil.Process().children() if child.cmdline()[-2:] == ["-m", "app"]]
        httpx2.get(url + path, timeout=60)
        before, begun = web.cpu_times(), time.monotonic()
        n_polls = asyncio.run(run_watchers(url, path, begun + WATCHED_SECONDS))
        after, seconds = web.cpu_times(), time.monotonic() - begun
    share = (after.user + after.system - before.user - before.system) / seconds
    figures.append(f"{WATCHERS} watchers, {n_polls} polls of an experiment of 30 runs: {share:.1%} of a core")
    assert n_polls > 0.8 * WATCHERS * WATCHED_SECONDS / POLL_SECONDS
    assert share < MAX_SHARE
