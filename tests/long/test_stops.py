import random
import signal
import threading
import time

import httpx2

from app.operations.serve import EXIT_SECONDS
from tests.stops import stop_bare_processes
from tests.texts import FILM_FILES
from tests.waiting import patience

STOPS = 300


def test_bare_processes_stop(figures):
    figures.append(f"3,000 stops of a waiting process: slowest {stop_bare_processes(3000):.2f} s")


def test_loaded_dashboard_stops_in_time(serving, models_dir, figures):
    server = serving(ISOSCOPE_MODELS_DIR=str(models_dir), ISOSCOPE_CHECKPOINT_SECONDS="0.5")
    dataset = server.post("/api/datasets", files=FILM_FILES)["id"]
    server.post("/api/experiments", json={
        "model": "tiny-bert", "dataset_id": dataset, "text_columns": ["sentence"], "label_column": "label",
        "regularizers": [], "seeds": list(range(50)), "epochs": None, "max_steps": 100_000,
    })  # fmt: skip
    done = threading.Event()

    def request_pages() -> None:
        with httpx2.Client(base_url=server.url, timeout=30) as client:
            while not done.is_set():
                try:
                    client.get("/experiments")
                except httpx2.HTTPError:
                    time.sleep(0.1)  # so that a server that starts is not kept from it

    request_threads = [threading.Thread(target=request_pages) for _ in range(4)]
    for thread in request_threads:
        thread.start()
    generator, seconds, codes = random.Random(0), [], set()
    try:
        for number in range(STOPS):
            if number:
                server.start()
            time.sleep(generator.uniform(0, 3))
            begun = time.monotonic()
            codes.add(server.stop(generator.choice((signal.SIGINT, signal.SIGTERM))))
            seconds.append(time.monotonic() - begun)
            assert seconds[-1] < EXIT_SECONDS * patience(), number
    finally:
        done.set()
        for thread in request_threads:
            thread.join()
    assert codes == {0}
    slowest, median = max(seconds), sorted(seconds)[STOPS // 2]
    figures.append(f"{STOPS} stops of a dashboard under load: median {median:.1f} s, slowest {slowest:.1f} s")
