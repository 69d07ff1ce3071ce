"""How long pages and API answers take beside the health route's, on a folder with embeddings and a sweep of 30 runs.

Run: python -m benchmarks.pages
"""

import io
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx2
import numpy as np

from app.context import Context
from app.db.config import RunConfig, TrainingConfig
from app.db.migration import upgrade
from app.db.models import Dataset, DatasetOrigin, Experiment, Run, RunFigure, RunStatus, Step
from app.db.penalty import Regularizer
from app.db.types import utcnow
from app.figures.layer_measures import OF_SENTENCES, WATCHED
from app.main import create_context
from app.queue import migrate
from app.services.embeddings import Incoming, commit_embedding, create_embedding
from app.settings import Settings
from benchmarks._rounds import interleave, machine, ratio, rounds_asked
from benchmarks._web import web_process
from workers.inspection import inspect_embedding
from workers.measure import measure_embedding

EMBEDDINGS, SHAPE = 5, (2000, 256)
LARGE = (50_000, 768)
LAMBDAS, SEEDS, STEPS, LAYERS = (-5.0, -3.0, -1.0, 0.0, 1.0, 3.0), 5, 40, 12
REQUESTS_A_ROUND = 10
HEALTH = "/api/health"
LATE = ("methods", "silhouette", "watched", "late-anisotropy", "twonn", "activation")
"""Figures that an experiment's page takes from their own pages when they are reached."""


def main() -> None:
    """Print median and 95th percentile of interleaved requests, and ratios to the health route."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=folder, sample=False)
        settings.create_folders()
        context = create_context(settings)
        upgrade(context.sessions.kw["bind"])
        migrate(settings.queue)
        embedding_id, other_id, *_ = [add_embedding(context, number, SHAPE) for number in range(EMBEDDINGS)]
        large_id = add_embedding(context, EMBEDDINGS, LARGE)
        experiment_id, run_id = add_experiment(context)
        context.queue.close()

        paths = [
            HEALTH,
            "/",
            "/embeddings",
            f"/embeddings/{embedding_id}",
            f"/embeddings/{large_id}",
            f"/embeddings/{large_id}/figures/projection.json",
            f"/embeddings/{embedding_id}/figures/spectrum.json",
            f"/embeddings/{large_id}/lab",
            f"/compare?id={embedding_id}&id={other_id}",
            "/playground",
            f"/api/embeddings/{embedding_id}",
            "/experiments",
            "/experiments/new",
            f"/experiments/{experiment_id}",
            f"/experiments/{experiment_id}/figures/learning.json",
            f"/experiments/{experiment_id}/figures/isotropy.json",
            *(f"/experiments/{experiment_id}/figures/{slug}.html" for slug in LATE),
            f"/api/experiments/{experiment_id}",
            f"/runs/{run_id}",
            f"/api/runs/{run_id}",
            "/queue",
            "/measures",
        ]
        with web_process(folder) as url, httpx2.Client(base_url=url, timeout=60) as client:
            ways: dict[str, Callable[[], object]] = {path: partial(get, client, path) for path in paths}
            times = interleave(ways, REQUESTS_A_ROUND * rounds_asked())

    names = {
        embedding_id: "<embedding>",
        other_id: "<other>",
        large_id: "<large>",
        experiment_id: "<experiment>",
        run_id: "<run>",
    }
    print(machine("fastapi", "sqlalchemy", "uvicorn"))
    print(
        f"{EMBEDDINGS} embeddings of {told(SHAPE)}, a large one of {told(LARGE)}, {len(LAMBDAS) * SEEDS} runs of "
        f"{STEPS} logged steps, SQLite, {len(times[HEALTH])} requests each\n"
    )
    print("| | median ms | p95 ms | ratio |\n|---|---|---|---|")
    for path, taken in times.items():
        name = path
        for row_id, word in names.items():
            name = name.replace(row_id, word)
        p95 = statistics.quantiles(taken, n=20)[-1]
        print(
            f"| `{name}` | {1e3 * statistics.median(taken):.1f} | {1e3 * p95:.1f} | {ratio(taken, times[HEALTH]):.1f} |"
        )


def get(client: httpx2.Client, path: str) -> None:
    """Fetch a path to its last byte."""
    client.get(path).raise_for_status()


def told(shape: tuple[int, int]) -> str:
    """Rows by dimensions in words."""
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


def add_experiment(context: Context) -> tuple[str, str]:
    """Write the rows of a finished sweep; return the ids of the experiment and of one of its runs."""
    draw = np.random.default_rng(0)
    labels = {"text_columns": ["text"], "label_column": "label", "label_names": ["0", "1"]}
    config = TrainingConfig.model_validate({"model": "all-MiniLM-L6-v2", **labels})
    dataset = Dataset(name="rows", origin=DatasetOrigin.UPLOAD, n_train=1000, n_validation=500, columns=[])
    experiment = Experiment(name="sweep", dataset=dataset, config=config.model_dump(mode="json"))
    for seed in range(SEEDS):
        for lam in LAMBDAS:
            experiment.runs.append(make_run(config, lam, seed, len(experiment.runs), draw))
    with context.sessions.begin() as session:
        session.add(experiment)
        session.flush()
        for run in experiment.runs:
            session.add(RunFigure(run_id=run.id, slug="activation", data=make_activation(draw)))
    return experiment.id, experiment.runs[0].id


def make_activation(draw: np.random.Generator) -> dict[str, Any]:
    """The activation of a run of so many dimensions."""
    return {"n": 500, "mean": draw.normal(size=SHAPE[1]).tolist(), "std": draw.random(SHAPE[1]).tolist()}


def make_run(config: TrainingConfig, lam: float, seed: int, position: int, draw: np.random.Generator) -> Run:
    """The row of a finished run with its steps."""
    regularizer = Regularizer.ISTAR if lam else Regularizer.NONE
    own = RunConfig(**config.model_dump(), regularizer=regularizer, lam=lam, seed=seed)
    layers = draw.random((STEPS, LAYERS)).tolist()
    reference = {"layers": layers[-1], "layer_reasons": [None] * LAYERS, "pooling": "first", "n": 500}
    by_layer = {"values": layers[-1], "reasons": [None] * LAYERS}
    return Run(
        position=position,
        config=own.model_dump(mode="json"),
        regularizer=regularizer,
        lam=lam,
        zeta=own.zeta,
        seed=seed,
        status=RunStatus.FINISHED,
        started_at=utcnow(),
        finished_at=utcnow(),
        performance=float(draw.random()),
        isoscore_star=float(draw.random()),
        results={
            "metrics": {"accuracy": 0.8, "f1": 0.8, "matthews": 0.6},
            "f1_average": "binary",
            "loss": 0.4,
            "n_validation": 500,
            "tokens": 12_000,
            "points": 144_000,
            "zeta": 0.0,
            "reference": {"zeta": 0.75, **reference},
            "by_layer": dict.fromkeys((*WATCHED, *OF_SENTENCES), by_layer),
            "by_layer_n": dict.fromkeys(OF_SENTENCES, 500),
        },
        environment={"device": "cpu", "packages": {"torch": "2.13.0"}},
        steps=[
            Step(
                step=10 * number,
                task_loss=float(draw.random()),
                penalty=-lam * values[0],
                layers=dict.fromkeys(WATCHED, values),
            )
            for number, values in enumerate(layers, start=1)
        ],
    )


if __name__ == "__main__":
    main()
