"""The section of a document with the results of a reproduction: for each question a table and how to read it."""

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmarks._results import (
    Result,
    anisotropy_table,
    cost_table,
    count_pairs,
    method_table,
    sweep_table,
    table,
)
from benchmarks._tasks import MODEL, TASKS, ZETA, Budget

BEGIN, END = "<!-- results of benchmarks.reproduction -->", "<!-- /results of benchmarks.reproduction -->"


class Check(NamedTuple):
    """A metric as its run reports it, and recomputed from the downloaded model."""

    task: str
    metric: str
    rows: int
    reported: float | None
    recomputed: float


@dataclass
class Report:
    """The results of the runs of a budget."""

    budget: Budget
    tasks: list[str]
    results: list[Result] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    environments: list[Mapping[str, Any]] = field(default_factory=list)
    machine: str | None = None  # The machine of this process, if the dashboard ran on it too

    def markdown(self) -> str:
        """Return the section in Markdown."""
        metrics = {name: TASKS[name].metric.value for name in self.tasks}
        parts = [
            self._scale(),
            self._failure_list(),
            "### Performance and IsoScore★ by task and method",
            "Performance, then IsoScore★, on the validation rows at the end of a run. Means over seeds ± half the "
            "95% interval.",
            method_table(self.results, metrics),
            *self._sweep_parts(),
            "### Cost",
            "From the start of a run to its end, beside the plain run of the same sweep. I-STAR includes the pass for "
            "the shrinkage covariance. On a busy machine single runs scatter.",
            cost_table(self.results),
            "### Anisotropy by method",
            "Share of the first direction in the last layer's tokens of the probe rows, raw, then centered. Averaged "
            "over the measurements in the last 30% of the steps.",
            anisotropy_table(self.results, metrics),
            *self._check_parts(),
        ]
        return "\n\n".join(part for part in parts if part)

    def command(self) -> str:
        """Return the shell command that repeats these runs."""
        words = ["python", "-m", "benchmarks.reproduction"]
        for name, value in ({"tasks": self.tasks} | dataclasses.asdict(self.budget)).items():
            values = value if isinstance(value, list | tuple) else [value]
            words.append(f"--{name.replace('_', '-')}")
            words += [f"{item:g}" if isinstance(item, float) else str(item) for item in values]
        return f"ISOSCOPE_BENCH_DATA=<folder> {shlex.join(words)}"

    def _scale(self) -> str:
        budget, seeds = self.budget, len(self.budget.seeds)
        environments = dict.fromkeys(_describe_environment(environment) for environment in self.environments)
        machines = [*([self.machine] if self.machine else []), *environments]
        longer_tasks = "".join(
            f" {name} takes {TASKS[name].times} times the steps and rows."
            for name in self.tasks
            if TASKS[name].times > 1
        )
        return "\n\n".join(
            [
                f"{len(self.results)} runs of {MODEL}: {budget.max_steps} steps of {budget.batch_size} rows out of "
                f"{budget.train_rows:,}, {budget.validation_rows:,} validation rows, {seeds} "
                f"{'seed' if seeds == 1 else 'seeds'}, rate {budget.learning_rate:g}, ζ = {ZETA:g}.{longer_tasks}",
                f"```\n{self.command()}\n```",
                "\n".join(machines),
            ]
        )

    def _failure_list(self) -> str:
        if not self.failures:
            return ""
        n = len(self.failures)
        subject = "One run did not finish and is" if n == 1 else f"{n} runs did not finish and are"
        return "\n".join([f"{subject} left out:", "", *(f"- {failure}" for failure in self.failures)])

    def _sweep_parts(self) -> list[str]:
        n_pairs, n_equal = count_pairs(self.results)
        parts = [
            "### Does IsoScore★ rise with λ?",
            "IsoScore★ of I-STAR and its bias-corrected form. The last columns: how far it moves from λ = −1 to λ = 1, "
            "and in how many steps from one λ to the next it rises.",
            sweep_table(self.results, self.tasks, lambda run: run.isoscore_star),
            "Bias-corrected IsoScore of the same runs, on the mean vector of each text, averaged over layers:",
            sweep_table(self.results, self.tasks, lambda run: run.isoscore_unbiased),
        ]
        if n_pairs:
            parts.append(
                f"Plain training was run twice for each task and seed; {n_equal} of {n_pairs} pairs are equal."
            )
        return parts

    def _check_parts(self) -> list[str]:
        rows = [
            [check.task, check.metric, f"{check.rows:,}", _six_digits(check.reported), _six_digits(check.recomputed)]
            for check in self.checks
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


def replace_section(document: str, section: str) -> str:
    """Return a document with the section between its two markers replaced."""
    if document.count(BEGIN) != 1 or document.count(END) != 1 or document.index(BEGIN) > document.index(END):
        raise ValueError(f"expected a document with one line {BEGIN} and below it one line {END}")
    before, after = document.index(BEGIN) + len(BEGIN), document.index(END)
    return f"{document[:before]}\n\n{section}\n\n{document[after:]}"


def _describe_environment(environment: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
    return (
        f"Trained on {environment['device_name']}, {environment['threads']} threads, {environment['platform']}, "
        f"Python {environment['python']}, {versions}."
    )


def _six_digits(value: float | None) -> str:
    return "–" if value is None else f"{value:.6f}".replace("-", "−")
