"""Fill a database as a lab does in a year: thousands of finished runs and millions of logged steps.

Run: python -m benchmarks._many_runs FOLDER [--runs 10000] [--experiments 20] [--steps 200]
"""

import argparse
import json
import random
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from typing import Any

from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from app.context import Context, create_context
from app.core.settings import Settings
from app.db.config import RunConfig, TrainingConfig
from app.db.migration import upgrade
from app.db.models import Dataset, DatasetOrigin, Experiment, Run, RunFigure, RunStatus, Step
from app.db.types import new_id, utcnow
from app.queue import migrate
from app.results.labels import SENTENCE_MEASURES, TRAINING_MEASURES
from isotropy.catalog import Regularizer

LAMBDAS = (-5.0, -3.0, -1.0, 0.0, 1.0, 3.0, 5.0, 8.0, 10.0, 20.0)
LAYERS, DIMENSIONS = 12, 64
MEASUREMENTS = 12  # Steps of a run at which its layers are measured
RUNS_AT_ONCE, STEPS_AT_ONCE = 500, 20_000
LABELS = {"model": "all-MiniLM-L6-v2", "text_columns": ["text"], "label_column": "label", "label_names": ["0", "1"]}
CONFIG = TrainingConfig.model_validate(LABELS)


def new_context(folder: str) -> Context:
    """Create empty databases, in a data folder or at ISOSCOPE_DATABASE_URL."""
    settings = Settings(data_dir=folder, sample=False)
    settings.create_folders()
    context = create_context(settings)
    upgrade(context.sessions.kw["bind"])
    migrate(settings.queue)
    return context


def fill(context: Context, runs: int, experiments: int, steps: int, *, waiting: int = 0) -> list[str]:
    """Write ``runs`` runs of ``steps`` steps each, the last ``waiting`` queued; return the ids of the experiments."""
    draw = random.Random(0)
    dataset = Dataset(name="rows", origin=DatasetOrigin.UPLOAD, n_train=1000, n_validation=500, columns=[])
    started = utcnow()
    config = CONFIG.model_dump(mode="json")
    experiment_rows = [
        Experiment(name=f"sweep {n}", dataset=dataset, config=config, created_at=started - timedelta(hours=n))
        for n in range(experiments)
    ]
    with context.sessions.begin() as session:
        session.add_all(experiment_rows)
        session.flush()
        run_columns = [
            _make_run(experiment_rows[n % experiments].id, n // experiments, queued=n >= runs - waiting, draw=draw)
            for n in range(runs)
        ]
        _insert(session, Run, iter(run_columns), RUNS_AT_ONCE)
        finished_ids = [run["id"] for run in run_columns if run["status"] is RunStatus.FINISHED]
        logged_steps = (step for run_id in finished_ids for step in _make_steps(run_id, steps, draw))
        _insert(session, Step, logged_steps, STEPS_AT_ONCE)
        _insert(session, RunFigure, (_make_activation(run_id, draw) for run_id in finished_ids), RUNS_AT_ONCE)
    with context.sessions.begin() as session:
        session.execute(text("ANALYZE"))
    return [experiment.id for experiment in experiment_rows]


def _insert(session: Session, table: type[Any], rows: Iterator[dict[str, Any]], batch_size: int) -> None:
    while batch := list(islice(rows, batch_size)):
        session.execute(insert(table), batch)


def _make_run(experiment_id: str, position: int, *, queued: bool, draw: random.Random) -> dict[str, Any]:
    """Return the columns of a run; positions go through all lambdas of a seed first."""
    lam, seed = LAMBDAS[position % len(LAMBDAS)], position // len(LAMBDAS)
    regularizer = Regularizer.ISTAR if lam else Regularizer.NONE
    config = RunConfig(**CONFIG.model_dump(), regularizer=regularizer, lam=lam, seed=seed)
    isotropy = 1 / (1 + 2.718 ** (-lam / 5)) + draw.gauss(0, 0.02)
    return {
        "id": new_id(),
        "experiment_id": experiment_id,
        "position": position,
        "config": config.model_dump(mode="json"),
        "model": config.model,
        "regularizer": regularizer,
        "lam": lam,
        "zeta": config.zeta,
        "seed": seed,
        "status": RunStatus.QUEUED if queued else RunStatus.FINISHED,
        "started_at": None if queued else utcnow(),
        "finished_at": None if queued else utcnow(),
        "performance": None if queued else 0.85 - 0.1 * isotropy + draw.gauss(0, 0.01),
        "isoscore_star": None if queued else isotropy,
        "results": None if queued else _make_results(draw),
        "notes": [],
        "log": "step\n" * 200,
        "environment": {"device": "cpu", "packages": {"torch": "2.13.0"}},
    }


def _make_results(draw: random.Random) -> dict[str, Any]:
    values = [draw.random() for _ in range(LAYERS)]
    by_layer = {"values": values, "reasons": [None] * LAYERS}
    return {
        "metrics": {"accuracy": 0.8, "f1": 0.8, "matthews": 0.6},
        "loss": 0.4,
        "n_validation": 500,
        "tokens": 12_000,
        "points": 144_000,
        "zeta": 0.0,
        "reference": {"zeta": 0.75, "pooling": "first", "n": 500, "layers": values, "layer_reasons": [None] * LAYERS},
        "by_layer": dict.fromkeys((*TRAINING_MEASURES, *SENTENCE_MEASURES), by_layer),
        "by_layer_n": dict.fromkeys(SENTENCE_MEASURES, 500),
    }


def _make_steps(run_id: str, steps: int, draw: random.Random) -> Iterator[dict[str, Any]]:
    """Yield every tenth step of a training, about twelve of them with measures of the layers."""
    interval = max(steps // MEASUREMENTS, 1)
    for n in range(1, steps + 1):
        layers = _make_layers(draw) if n % interval == 0 else None
        yield {"run_id": run_id, "step": 10 * n, "task_loss": 1 / n + draw.random(), "penalty": 0.1, "layers": layers}


def _make_layers(draw: random.Random) -> dict[str, list[float]]:
    values = [round(draw.random(), 4) for _ in range(LAYERS)]
    return dict.fromkeys(TRAINING_MEASURES, values)


def _make_activation(run_id: str, draw: random.Random) -> dict[str, Any]:
    mean, std = ([draw.random() for _ in range(DIMENSIONS)] for _ in range(2))
    return {"run_id": run_id, "slug": "activation", "data": {"n": 500, "mean": mean, "std": std}}


def main() -> None:
    """Fill the database of a data folder, or at ISOSCOPE_DATABASE_URL, and print the seconds it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    for name, default in (("runs", 10_000), ("experiments", 20), ("steps", 200), ("waiting", 50)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    context = new_context(arguments.folder)
    start = time.perf_counter()
    ids = fill(context, arguments.runs, arguments.experiments, arguments.steps, waiting=arguments.waiting)
    context.close()
    print(json.dumps({"experiments": ids, "seconds": round(time.perf_counter() - start, 1)}))


if __name__ == "__main__":
    main()
