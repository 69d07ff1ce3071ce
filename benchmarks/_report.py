"""The results of a reproduction as a part of a document: one table for each question, with what to read in it."""

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmarks._results import (
    Result,
    anisotropy_table,
    cost_table,
    method_table,
    repeated,
    sweep_table,
    table,
)
from benchmarks._tasks import MODEL, TASKS, ZETA, Budget

BEGIN, END = "<!-- results of benchmarks.reproduction -->", "<!-- /results of benchmarks.reproduction -->"


class Check(NamedTuple):
    """A metric as its run has it, and recomputed from the model that was kept."""

    task: str
    metric: str
    rows: int
    reported: float | None
    recomputed: float


@dataclass
class Report:
    """What came out of the runs of a budget."""

    budget: Budget
    tasks: list[str]
    results: list[Result] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    environments: list[Mapping[str, Any]] = field(default_factory=list)
    machine: str | None = None  # Of this process, where the dashboard ran on the same

    def markdown(self) -> str:
        """Return all of it."""
        metrics = {name: TASKS[name].metric.value for name in self.tasks}
        parts = [
            self._scale(),
            self._failed(),
            "### Performance and IsoScore★ by task and method",
            "Performance, then IsoScore★, on the validation rows at the end of a run. Means over seeds ± standard "
            "deviation.",
            method_table(self.results, metrics),
            *self._sweeps(),
            "### Cost",
            "From the start of a run to its end, beside the plain run of the same sweep. I-STAR includes the pass for "
            "the shrinkage covariance. On a busy machine single runs scatter.",
            cost_table(self.results),
            "### Anisotropy by method",
            "Share of the first direction in the last layer's tokens of the probe rows, raw, then centered. Averaged "
            "over the measurements in the last 30% of the steps.",
            anisotropy_table(self.results, metrics),
            *self._checked(),
        ]
        return "\n\n".join(part for part in parts if part)

    def command(self) -> str:
        """Return what repeats these runs."""
        words = ["python", "-m", "benchmarks.reproduction"]
        for name, value in ({"tasks": self.tasks} | dataclasses.asdict(self.budget)).items():
            values = value if isinstance(value, list | tuple) else [value]
            words.append(f"--{name.replace('_', '-')}")
            words += [f"{one:g}" if isinstance(one, float) else str(one) for one in values]
        return f"ISOSCOPE_BENCH_DATA=<folder> {shlex.join(words)}"

    def _scale(self) -> str:
        budget, seeds = self.budget, len(self.budget.seeds)
        ran_on = dict.fromkeys(_told(environment) for environment in self.environments)
        machines = [*([self.machine] if self.machine else []), *ran_on]
        longer = "".join(
            f" {name} takes {TASKS[name].times} times the steps and rows."
            for name in self.tasks
            if TASKS[name].times > 1
        )
        return "\n\n".join(
            [
                f"{len(self.results)} runs of {MODEL}: {budget.max_steps} steps of {budget.batch_size} rows out of "
                f"{budget.train_rows:,}, {budget.validation_rows:,} validation rows, {seeds} "
                f"{'seed' if seeds == 1 else 'seeds'}, rate {budget.learning_rate:g}, ζ = {ZETA:g}.{longer}",
                f"```\n{self.command()}\n```",
                "\n".join(machines),
            ]
        )

    def _failed(self) -> str:
        if not self.failures:
            return ""
        how_many = (
            "One run did not finish and is"
            if len(self.failures) == 1
            else f"{len(self.failures)} runs did not finish and are"
        )
        return "\n".join([f"{how_many} left out:", "", *(f"- {failure}" for failure in self.failures)])

    def _sweeps(self) -> list[str]:
        pairs, equal = repeated(self.results)
        parts = [
            "### Does IsoScore★ rise with λ?",
            "IsoScore★ of I-STAR and its bias-corrected form. The last columns: how far it moves from λ = −1 to λ = 1, "
            "and in how many steps from one λ to the next it rises.",
            sweep_table(self.results, self.tasks, lambda run: run.isoscore_star),
            "Bias-corrected IsoScore of the same runs, on the mean vector of each text, averaged over layers:",
            sweep_table(self.results, self.tasks, lambda run: run.isoscore_unbiased),
        ]
        if pairs:
            parts.append(f"Plain training was run twice for each task and seed; {equal} of {pairs} pairs are equal.")
        return parts

    def _checked(self) -> list[str]:
        rows = [
            [one.task, one.metric, f"{one.rows:,}", _digits(one.reported), _digits(one.recomputed)]
            for one in self.checks
        ]
        spans = "Span metrics are checked by the tests, against worked examples."
        if not rows:
            return ["### Metrics recomputed", spans]
        return [
            "### Metrics recomputed",
            "One plain run of each task, on all validation rows. Its model was downloaded; transformers predicted, "
            f"scikit-learn and SciPy scored. {spans}",
            table(["task", "metric", "rows", "of the run", "recomputed"], rows),
        ]


def between_markers(document: str, text: str) -> str:
    """Return a document with what stands between its two markers replaced."""
    if document.count(BEGIN) != 1 or document.count(END) != 1 or document.index(BEGIN) > document.index(END):
        raise ValueError(f"expected a document with one line {BEGIN} and below it one line {END}")
    before, after = document.index(BEGIN) + len(BEGIN), document.index(END)
    return f"{document[:before]}\n\n{text}\n\n{document[after:]}"


def _told(environment: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
    return (
        f"Trained on {environment['device_name']}, {environment['threads']} threads, {environment['platform']}, "
        f"Python {environment['python']}, {versions}."
    )


def _digits(value: float | None) -> str:
    return "–" if value is None else f"{value:.6f}".replace("-", "−")
