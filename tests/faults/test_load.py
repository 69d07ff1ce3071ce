import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import psutil
import pytest

from tests.crowd import ANSWERED_SECONDS, import_among_writers, slowest_health
from tests.serving import web_process
from tests.slow_clients import withstand_slow_clients
from tests.waiting import patience

UPLOADS, UPLOAD_BYTES = 44, 233_000
STEPS = 40_000


@pytest.mark.long
def test_health_is_answered_during_many_uploads(tmp_path, empty_dashboard, monkeypatch):
    monkeypatch.setenv("ISOSCOPE_PARSE_AT_ONCE", "2")
    rows = "sentence\tlabel\n" + "the keys to the cabinet are here\t1\n" * (UPLOAD_BYTES // 35)
    files = {name: (f"{name}.tsv", rows) for name in ("train", "validation")}
    done = threading.Event()
    limits = httpx2.Limits(max_connections=UPLOADS)
    with (
        web_process(empty_dashboard) as url,
        ThreadPoolExecutor(UPLOADS + 1) as crowd,
        httpx2.Client(base_url=url, timeout=120, limits=limits) as client,
    ):

        def upload(number):
            return client.post("/api/datasets", files=files, data={"name": str(number)})

        health = crowd.submit(slowest_health, url, done)
        answers = list(crowd.map(upload, range(UPLOADS)))
        done.set()
        assert health.result() < ANSWERED_SECONDS * patience()
        accepted, refused = ([answer for answer in answers if answer.status_code == status] for status in (201, 429))
        assert (len(accepted) + len(refused), len(accepted) > 0, len(refused) > 0) == (UPLOADS, True, True)
        assert {answer.headers["retry-after"] for answer in refused} == {"5"}
        assert len(httpx2.get(f"{url}/api/datasets", timeout=60).json()) == len(accepted)


def test_upload_is_no_longer_parsed_after_client_leaves(tmp_path, empty_dashboard, monkeypatch):
    monkeypatch.setenv("ISOSCOPE_PARSE_AT_ONCE", "1")
    rows = "\n".join(json.dumps({"text": f"{i} " + "word " * 40}) for i in range(200_000))
    with web_process(empty_dashboard) as url:

        def parsing_processes():
            ours, running = psutil.Process().children(recursive=True), psutil.process_iter(["cmdline"])
            return [child for child in running if child in ours and "app.sandbox" in str(child.info["cmdline"])]

        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(f"{url}/api/encodings", files={"file": ("t.jsonl", rows)}, timeout=httpx2.Timeout(30, read=0.5))
        end = time.monotonic() + 10 * patience()
        while parsing_processes() and time.monotonic() < end:
            time.sleep(0.1)
        assert not parsing_processes()
        assert httpx2.get(f"{url}/api/encodings", timeout=60).json() == []
        response = httpx2.post(f"{url}/api/encodings", files={"file": ("t.txt", "a\nb\n")}, timeout=60)
        assert (response.status_code, len(httpx2.get(f"{url}/api/encodings", timeout=60).json())) == (201, 1)


@pytest.mark.long
def test_killed_import_leaves_nothing_visible(serving, tmp_path, empty_dashboard):
    import_among_writers(serving(), empty_dashboard, tmp_path, steps=STEPS, kill=True)


def test_slow_clients_without_token_keep_nobody_out(empty_dashboard):
    withstand_slow_clients(empty_dashboard, seconds=2)
