"""The results of a reproduction's runs, and its tables in Markdown."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise, product
from typing import Any, NamedTuple

from app.core.evidence import t_quantile
from app.db.options.regularization import REGULARIZER_NAMES
from app.results.statistics.estimate import tail_mean
from benchmarks._tasks import CHECK
from isotropy.catalog import Regularizer

# Regularizers and lambdas that are compared over all tasks.
METHODS = (
    (Regularizer.NONE, 0.0),
    (Regularizer.ISTAR, -1.0),
    (Regularizer.ISTAR, 1.0),
    (Regularizer.UNBIASED, 1.0),
    (Regularizer.COSREG, 1.0),
    (Regularizer.ENTROPY, 1.0),
)
STEERED = (Regularizer.ISTAR, Regularizer.UNBIASED)


class Result(NamedTuple):
    """One finished run."""

    task: str
    part: str
    regularizer: Regularizer
    lam: float
    seed: int
    performance: float | None
    isoscore_star: float | None
    isoscore_unbiased: float | None  # Of one vector per text, averaged over layers; steered by the bias-corrected form
    seconds: float
    steps: int
    anisotropy: Mapping[str, float | None]  # Anisotropy of the last layer's tokens, by measure


def result_of(task: str, part: str, run: Mapping[str, Any]) -> Result:
    """Convert a finished run of the API to a result."""
    start, end = (datetime.fromisoformat(run[name]) for name in ("started_at", "finished_at"))
    measures = [f"anisotropy_{kind}_1" for kind in ("raw", "centred")]
    last_step = run["steps"][-1]["step"]
    return Result(
        task=task,
        part=part,
        regularizer=Regularizer(run["regularizer"]),
        lam=run["lam"],
        seed=run["seed"],
        performance=run["performance"],
        isoscore_star=run["isoscore_star"],
        isoscore_unbiased=_mean(run["results"]["by_layer"]["isoscore_unbiased"]["values"]),
        seconds=(end - start).total_seconds(),
        steps=last_step,
        anisotropy={measure: tail_mean(_last_layer(run["steps"], measure), last_step) for measure in measures},
    )


def method_table(results: Sequence[Result], metrics: Mapping[str, str]) -> str:
    """Return performance and IsoScore* of each task and method."""
    return _by_method(results, metrics, lambda run: run.performance, lambda run: run.isoscore_star)


def anisotropy_table(results: Sequence[Result], metrics: Mapping[str, str]) -> str:
    """Return the share of the first direction of each task and method, raw and centered."""
    shares = [lambda run, kind=kind: run.anisotropy[f"anisotropy_{kind}_1"] for kind in ("raw", "centred")]
    return _by_method(results, dict.fromkeys(metrics), *shares)


def sweep_table(results: Sequence[Result], tasks: Iterable[str], value: Callable[[Result], float | None]) -> str:
    """Return a value by lambda for each task and form of I-STAR: how far it moves, and in how many steps it rises."""
    lambdas = sorted({run.lam for run in results if run.regularizer in STEERED} | {0.0})
    rows = []
    for task, regularizer in product(tasks, STEERED):
        values_by_lambda = {
            lam: [value(run) for run in _select_runs(results, task, regularizer, lam)] for lam in lambdas
        }
        means = {lam: mean for lam, values in values_by_lambda.items() if (mean := _mean(values)) is not None}
        moved = _signed(f"{means[1.0] - means[-1.0]:+.3f}") if {-1.0, 1.0} <= means.keys() else "–"
        rises = [later > earlier for earlier, later in pairwise(means.values())]
        cells = [_mean_cell(values) for values in values_by_lambda.values()]
        rows.append([task, REGULARIZER_NAMES[regularizer], *cells, moved, f"{sum(rises)} of {len(rises)}"])
    return table(["task", "method", *(f"λ = {_signed(f'{lam:g}')}" for lam in lambdas), "−1 to 1", "rises"], rows)


def cost_table(results: Sequence[Result]) -> str:
    """Return the median time that a method adds to plain training of the same task, sweep and seed."""
    baselines = {(run.task, run.part, run.seed): run for run in results if run.regularizer is Regularizer.NONE}
    rows = []
    for regularizer in dict.fromkeys(regularizer for regularizer, _ in METHODS[1:]):
        pairs = [
            (run, baseline)
            for run in results
            if run.regularizer is regularizer and (baseline := baselines.get((run.task, run.part, run.seed)))
        ]
        if pairs:
            added_ms = 1e3 * statistics.median((run.seconds - baseline.seconds) / run.steps for run, baseline in pairs)
            ratio = statistics.median(run.seconds / baseline.seconds for run, baseline in pairs)
            rows.append([REGULARIZER_NAMES[regularizer], str(len(pairs)), _signed(f"{added_ms:.0f}"), f"{ratio:.2f}"])
    return table(["method", "runs", "ms more a step", "time of a run, plain = 1"], rows)


def count_pairs(results: Sequence[Result]) -> tuple[int, int]:
    """Return the number of plain runs that both sweeps of a task trained, and how many of these pairs are equal."""
    scores: dict[tuple[str, int], list[tuple[float | None, float | None]]] = {}
    for run in results:
        if run.regularizer is Regularizer.NONE and run.part != CHECK:
            scores.setdefault((run.task, run.seed), []).append((run.performance, run.isoscore_star))
    pairs = [pair for pair in scores.values() if len(pair) == 2]
    return len(pairs), sum(first == second for first, second in pairs)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _last_layer(steps: Sequence[Mapping[str, Any]], measure: str) -> list[tuple[int, float | None]]:
    """Return a measure of the last layer at each step that was measured."""
    return [(row["step"], row["layers"][measure][-1]) for row in steps if row["layers"]]


def _without_repetitions(results: Sequence[Result]) -> list[Result]:
    """Return compared runs, without the plain runs that the second sweep of a task repeats."""
    first: dict[tuple[str, Regularizer, float, int], Result] = {}
    for run in results:
        if run.part != CHECK:
            first.setdefault((run.task, run.regularizer, run.lam, run.seed), run)
    return list(first.values())


def _select_runs(results: Sequence[Result], task: str, regularizer: Regularizer, lam: float) -> list[Result]:
    """Return the runs of a method over all seeds; lambda = 0 is plain training whatever the method."""
    setting = (task, regularizer if lam else Regularizer.NONE, lam)
    return [run for run in _without_repetitions(results) if (run.task, run.regularizer, run.lam) == setting]


def _by_method(
    results: Sequence[Result], metrics: Mapping[str, str | None], *values: Callable[[Result], float | None]
) -> str:
    """Return a table with a row for each task, a column for each method, and several values in a cell."""
    rows = []
    for task in dict.fromkeys(run.task for run in results):
        cells = [
            ", ".join(_mean_cell(value(run) for run in _select_runs(results, task, *method)) for value in values)
            for method in METHODS
        ]
        rows.append([f"{task} ({metrics[task]})" if metrics[task] else task, *cells])
    return table(["task", *(_method_name(*method) for method in METHODS)], rows)


def _method_name(regularizer: Regularizer, lam: float) -> str:
    return f"{REGULARIZER_NAMES[regularizer]}, λ = {_signed(f'{lam:g}')}" if lam else REGULARIZER_NAMES[regularizer]


def _signed(number: str) -> str:
    return number.replace("-", "−")


def _mean(values: Iterable[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return statistics.fmean(defined) if defined else None


def _mean_cell(values: Iterable[float | None]) -> str:
    """Return the mean, with half of its 95% interval from two values on; a dash without values."""
    defined = [value for value in values if value is not None]
    if not defined:
        return "–"
    n, half_width = len(defined), ""
    if n > 1:
        half_width = f" ± {t_quantile(0.05, n - 1) * statistics.stdev(defined) / n**0.5:.3f}"
    return _signed(f"{statistics.fmean(defined):.3f}{half_width}")
