from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import torch
from torch import distributed


def run_ranks(work: Callable[[int], Any], folder: Path, context: ForkServerContext, world_size: int = 2) -> list[Any]:
    results: Queue[tuple[int, Any]] = context.Queue()
    meeting = (folder / "meeting").as_uri()
    processes = [
        context.Process(target=_rank, args=(work, rank, world_size, meeting, results), daemon=True)
        for rank in range(world_size)
    ]
    for process in processes:
        process.start()
    try:
        by_rank = {}
        for _ in processes:
            rank, value = results.get(timeout=300)
            if isinstance(value, Exception):
                raise value  # other ranks may wait for this one forever
            by_rank[rank] = value
    finally:
        for process in processes:
            process.kill()
            process.join()
    return [by_rank[rank] for rank in range(world_size)]


def _rank(
    work: Callable[[int], Any], rank: int, world_size: int, meeting: str, results: "Queue[tuple[int, Any]]"
) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world_size)
    try:
        value = work(rank)
        distributed.destroy_process_group()
    except Exception as error:  # noqa: BLE001 (the test raises it)
        value = error
    results.put((rank, value))
