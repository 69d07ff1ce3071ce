"""Time pages and API responses, compared with the health route, with a few embeddings and a sweep of 30 runs.

Run: python -m benchmarks.pages

``--runs 10000`` times pages of many runs instead, with 200 steps each, in experiments of 500 runs. For PostgreSQL, set
ISOSCOPE_DATABASE_URL to an empty database. ``--folder`` keeps the rows for the next time.

If other work shares the cores, set ``CLOCK=cpu``: requests are then made within the process that serves them, and its
processor time is counted, without that of a PostgreSQL server.
"""

import argparse
import io
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import httpx2
import numpy as np
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from app.context import Context
from app.core.process import enable_rare_garbage_collection
from app.core.settings import Settings
from app.db.models import Experiment, Run, Step
from app.embeddings.service import commit_embedding, create_embedding
from app.main import create_app
from app.storage import Incoming
from benchmarks._many_runs import fill, new_context
from benchmarks._rounds import interleave, machine, ratio, requested_rounds
from benchmarks._web import web_process
from workers.embeddings.measure import inspect_embedding, measure_embedding

EMBEDDINGS, SHAPE = 5, (2000, 256)
LARGE = (50_000, 768)
RUNS, STEPS = 30, 40
REQUESTS_PER_ROUND = 10
HEALTH = "/api/health"
# Figures that an experiment's page loads when they are scrolled into view.
LAZY_FIGURES = ("methods", "silhouette", "watched", "late-anisotropy", "twonn", "activation")
PATHS_WITH_FEW_RUNS = (
    "/",
    "/embeddings",
    "/embeddings/<embedding>",
    "/embeddings/<large>",
    "/embeddings/<large>/figures/projection.json",
    "/embeddings/<embedding>/figures/spectrum.json",
    "/embeddings/<large>/lab",
    "/compare?id=<embedding>&id=<other>",
    "/playground",
    "/api/embeddings/<embedding>",
    "/experiments",
    "/experiments/new",
    "/experiments/<experiment>",
    "/experiments/<experiment>/figures/learning.json",
    "/experiments/<experiment>/figures/isotropy.json",
    *(f"/experiments/<experiment>/figures/{slug}.html" for slug in LAZY_FIGURES),
    "/api/experiments/<experiment>",
    "/runs/<run>",
    "/api/runs/<run>",
    "/queue",
    "/measures",
)
RUNS_PER_EXPERIMENT, STEPS_PER_RUN = 500, 200
# Pages of many runs, and of an experiment with 500 of them.
PATHS_WITH_MANY_RUNS = (
    "/",
    "/experiments",
    "/experiments?q=lam<0 iso>0.2",
    "/experiments/new",
    "/experiments/<experiment>",
    "/experiments/<experiment>?tab=training",
    "/experiments/<experiment>?tab=runs",
    "/experiments/<experiment>?tab=export",
    "/experiments/<experiment>/runs",
    "/experiments/<experiment>/runs?q=lam<0 iso>0.2&sort=-performance",
    "/experiments/<experiment>/figures/isotropy.json",
    "/experiments/<experiment>/figures/learning.json",
    "/experiments/<experiment>/figures/watched.html",
    "/api/experiments?limit=50",
    "/api/experiments/<experiment>",
    "/api/runs?q=lam<0 iso>0.2&limit=50",
    "/compare/runs",
    "/compare/runs/list",
    "/compare/runs/table.html",
    "/compare/runs/figures/isotropy.json",
    "/compare/runs/figures/isotropy.json?seeds=1",
    "/runs/<run>",
    "/runs/<run>?tab=results",
    "/runs/<run>?tab=log",
    "/runs/<run>?tab=settings",
    "/datasets",
    "/queue",
    "/queue/status",
)


def main() -> None:
    """Print median and 95th percentile of interleaved requests, and ratios to the health route."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or temporary
        context = new_context(folder)
        paths, summary = add_many_rows(context, arguments.runs) if arguments.runs else add_few_rows(context)
        database = context.sessions.kw["bind"].dialect.name
        context.close()
        paths = {HEALTH: HEALTH, **paths}
        with open_client(folder) as client:
            requests: dict[str, Callable[[], object]] = {
                name: partial(get, client, path) for name, path in paths.items()
            }
            times = interleave(requests, REQUESTS_PER_ROUND * requested_rounds())
    print(machine("fastapi", "sqlalchemy", "uvicorn"))
    print(f"{summary}, {database}, {len(times[HEALTH])} requests each\n")
    print("| | median ms | p95 ms | ratio |\n|---|---|---|---|")
    for name, seconds in times.items():
        median_ms, p95_ms = 1e3 * statistics.median(seconds), 1e3 * statistics.quantiles(seconds, n=20)[-1]
        print(f"| `{name}` | {median_ms:.1f} | {p95_ms:.1f} | {ratio(seconds, times[HEALTH]):.1f} |")


@contextmanager
def open_client(folder: str) -> Iterator[httpx2.Client]:
    """Yield a client of the dashboard on a folder, in a web process or, to count processor time, in this one."""
    if os.environ.get("CLOCK") == "cpu":
        app = create_app(Settings(data_dir=folder, sample=False))
        with TestClient(app, base_url="http://127.0.0.1:8000") as client:
            enable_rare_garbage_collection()  # as the web process does
            yield client
    else:
        with web_process(folder) as url, httpx2.Client(base_url=url, timeout=60) as client:
            yield client


def add_few_rows(context: Context) -> tuple[dict[str, str], str]:
    """Add embeddings and a sweep; return the paths to time by name, and a summary of the rows."""
    embedding_id, other_id, *_ = [add_embedding(context, number, SHAPE) for number in range(EMBEDDINGS)]
    large_id = add_embedding(context, EMBEDDINGS, LARGE)
    (experiment_id,) = fill(context, RUNS, 1, STEPS)
    ids = {
        "<embedding>": embedding_id,
        "<other>": other_id,
        "<large>": large_id,
        "<experiment>": experiment_id,
        "<run>": find_run(context, experiment_id),
    }
    summary = (
        f"{EMBEDDINGS} embeddings of {in_words(SHAPE)}, a large one of {in_words(LARGE)}, "
        f"{RUNS} runs of {STEPS} logged steps"
    )
    return insert_ids(PATHS_WITH_FEW_RUNS, ids), summary


def add_many_rows(context: Context, runs: int) -> tuple[dict[str, str], str]:
    """Fill the database with runs unless it has some; return the paths to time by name, and a summary of the rows."""
    newest = select(Experiment.id).order_by(Experiment.created_at.desc()).limit(1)
    with context.sessions() as session:
        experiment_id = session.scalar(newest)
    if experiment_id is None:
        experiment_id = fill(context, runs, max(runs // RUNS_PER_EXPERIMENT, 1), STEPS_PER_RUN, waiting=50)[0]
    with context.sessions() as session:
        counts = [session.scalar(select(func.count()).select_from(table)) or 0 for table in (Run, Experiment, Step)]
    summary = "{:,} runs in {:,} experiments, {:,} steps".format(*counts)
    ids = {"<experiment>": experiment_id, "<run>": find_run(context, experiment_id)}
    return insert_ids(PATHS_WITH_MANY_RUNS, ids), summary


def find_run(context: Context, experiment_id: str) -> str:
    with context.sessions() as session:
        return session.scalars(select(Run.id).where(Run.experiment_id == experiment_id).limit(1)).one()


def insert_ids(templates: Sequence[str], ids: Mapping[str, str]) -> dict[str, str]:
    """Return paths with placeholders replaced by ids, by their templates."""
    paths = {}
    for template in templates:
        path = template
        for placeholder, row_id in ids.items():
            path = path.replace(placeholder, row_id)
        paths[template] = path
    return paths


def get(client: httpx2.Client, path: str) -> None:
    client.get(path).raise_for_status()


def in_words(shape: tuple[int, int]) -> str:
    return f"{shape[0]:,} x {shape[1]}"


def add_embedding(context: Context, seed: int, shape: tuple[int, int]) -> str:
    """Upload, inspect and measure a Gaussian cloud, as the workers do; return its id."""
    draw = np.random.default_rng(seed)
    buffer = io.BytesIO()
    np.save(buffer, draw.normal(size=shape).astype(np.float32) * draw.random(shape[1], np.float32))
    buffer.seek(0)
    embedding = create_embedding(context, [Incoming(buffer, f"cloud-{seed}.npy")])
    inspect_embedding(embedding.id, context.settings, "cpu")
    commit_embedding(context, embedding.id)
    measure_embedding(embedding.id, context.settings, "cpu")
    return embedding.id


if __name__ == "__main__":
    main()
