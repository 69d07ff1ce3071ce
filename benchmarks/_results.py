"""What a reproduction's runs came to, and its tables in Markdown: pure."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise, product
from typing import Any, NamedTuple

from app.db.options.regularization import REGULARIZER_NAMES
from app.results.statistics.estimate import tail_mean
from benchmarks._tasks import CHECK
from isotropy.catalog import Regularizer

# What is compared over all tasks.
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
    isoscore_unbiased: float | None  # Of one vector a text, the mean over layers: what the bias-corrected form steers
    seconds: float
    steps: int
    anisotropy: Mapping[str, float | None]  # Of the last layer's tokens, by measure


def result_of(task: str, part: str, run: Mapping[str, Any]) -> Result:
    """Read a finished run as the API shows it."""
    began, ended = (datetime.fromisoformat(run[name]) for name in ("started_at", "finished_at"))
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
        seconds=(ended - began).total_seconds(),
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
    """A value along lambda for each task and form of I-STAR: how far it moves, and at how many steps it rises."""
    lambdas = sorted({one.lam for one in results if one.regularizer in STEERED} | {0.0})
    rows = []
    for task, regularizer in product(tasks, STEERED):
        along = {lam: [value(one) for one in _of(results, task, regularizer, lam)] for lam in lambdas}
        means = {lam: mean for lam, values in along.items() if (mean := _mean(values)) is not None}
        moved = _signed(f"{means[1.0] - means[-1.0]:+.3f}") if {-1.0, 1.0} <= means.keys() else "–"
        rises = [later > earlier for earlier, later in pairwise(means.values())]
        cells = [_told(values) for values in along.values()]
        rows.append([task, REGULARIZER_NAMES[regularizer], *cells, moved, f"{sum(rises)} of {len(rises)}"])
    return table(["task", "method", *(f"λ = {_signed(f'{lam:g}')}" for lam in lambdas), "−1 to 1", "rises"], rows)


def cost_table(results: Sequence[Result]) -> str:
    """What a method adds to the time of plain training of the same task, sweep and seed: medians over runs."""
    plain = {(one.task, one.part, one.seed): one for one in results if one.regularizer is Regularizer.NONE}
    rows = []
    for regularizer in dict.fromkeys(regularizer for regularizer, _ in METHODS[1:]):
        pairs = [
            (one, base)
            for one in results
            if one.regularizer is regularizer and (base := plain.get((one.task, one.part, one.seed)))
        ]
        if pairs:
            added = statistics.median((one.seconds - base.seconds) / one.steps for one, base in pairs)
            ratio = statistics.median(one.seconds / base.seconds for one, base in pairs)
            rows.append(
                [REGULARIZER_NAMES[regularizer], str(len(pairs)), _signed(f"{1e3 * added:.0f}"), f"{ratio:.2f}"]
            )
    return table(["method", "runs", "ms more a step", "time of a run, plain = 1"], rows)


def repeated(results: Sequence[Result]) -> tuple[int, int]:
    """Return how many plain runs were trained twice, once in each sweep, and how many pairs have equal numbers."""
    pairs: dict[tuple[str, int], set[tuple[float | None, float | None]]] = {}
    counts: dict[tuple[str, int], int] = {}
    for one in results:
        if one.regularizer is Regularizer.NONE and one.part != CHECK:
            key = one.task, one.seed
            pairs.setdefault(key, set()).add((one.performance, one.isoscore_star))
            counts[key] = counts.get(key, 0) + 1
    twice = [key for key, count in counts.items() if count == 2]
    return len(twice), sum(len(pairs[key]) == 1 for key in twice)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _last_layer(steps: Sequence[Mapping[str, Any]], measure: str) -> list[tuple[int, float | None]]:
    """Return a measure of the last layer at each step at which it was looked at."""
    return [(row["step"], row["layers"][measure][-1]) for row in steps if row["layers"]]


def _once(results: Sequence[Result]) -> list[Result]:
    """Return results of the comparison without repetitions: plain runs are in both sweeps of a task."""
    first: dict[tuple[str, Regularizer, float, int], Result] = {}
    for one in results:
        if one.part != CHECK:
            first.setdefault((one.task, one.regularizer, one.lam, one.seed), one)
    return list(first.values())


def _of(results: Sequence[Result], task: str, regularizer: Regularizer, lam: float) -> list[Result]:
    """Return the runs of all seeds; at lambda = 0, where every method is plain training, the plain ones."""
    wanted = (task, regularizer if lam else Regularizer.NONE, lam)
    return [one for one in _once(results) if (one.task, one.regularizer, one.lam) == wanted]


def _by_method(
    results: Sequence[Result], metrics: Mapping[str, str | None], *values: Callable[[Result], float | None]
) -> str:
    """Return a table with a row for each task, a column for each method, and several values in a cell."""
    rows = []
    for task in dict.fromkeys(run.task for run in results):
        cells = [
            ", ".join(_told(value(run) for run in _of(results, task, *method)) for value in values)
            for method in METHODS
        ]
        rows.append([f"{task} ({metrics[task]})" if metrics[task] else task, *cells])
    return table(["task", *(_method(*method) for method in METHODS)], rows)


def _method(regularizer: Regularizer, lam: float) -> str:
    return f"{REGULARIZER_NAMES[regularizer]}, λ = {_signed(f'{lam:g}')}" if lam else REGULARIZER_NAMES[regularizer]


def _signed(number: str) -> str:
    return number.replace("-", "−")


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _told(values: Iterable[float | None]) -> str:
    """Return the mean, with the standard deviation of two values or more; a dash where there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    spread = f" ± {statistics.stdev(known):.3f}" if len(known) > 1 else ""
    return _signed(f"{statistics.fmean(known):.3f}{spread}")
