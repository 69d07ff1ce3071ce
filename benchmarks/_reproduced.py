"""The results of a reproduction in Markdown: curves over lambda with their verdicts, beside what the paper reports."""

import dataclasses
import shlex
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmarks._tasks import TASKS, Budget
from isoscope.core.formatting import one_line, plural

BEGIN, END = "<!-- results of benchmarks.reproduction -->", "<!-- /results of benchmarks.reproduction -->"
REPORTED_GAINS = {
    "sst2": {"BERT": 0.25, "ALBERT": 0.00},
    "rte": {"BERT": 0.29, "ALBERT": 1.22},
    "squad": {"BERT": 0.74},
    "cola": {"DistilBERT": -0.13},
}
"""Points of the best negative lambda over plain training, from the readable cells of Rudman & Eickhoff's Table 1."""


class Curve(NamedTuple):
    """The runs of a model on a task, and the conclusion from them, as the API returns both."""

    model: str
    task: str
    runs: list[dict[str, Any]]
    conclusion: Mapping[str, Any]

    def rows(self) -> list[list[str]]:
        """Return a row for each lambda: isotropy, performance, difference from plain training, and its verdict."""
        verdicts = {row["lam"]: row for row in self.conclusion["differences"]}
        rows = []
        for lam in sorted({run["lam"] for run in self.runs}):
            runs = [run for run in self.runs if run["lam"] == lam]
            verdict = verdicts.get(lam)
            scores = [[run[name] for run in runs if run[name] is not None] for name in ("isoscore_star", "performance")]
            rows.append(
                [
                    self.task,
                    _format_number(lam, "g"),
                    *(_format_number(statistics.fmean(values) if values else None, ".3f") for values in scores),
                    str(len(scores[1])),
                    "–" if verdict is None else _format_interval(verdict),
                    "plain training" if lam == 0 else "–" if verdict is None else verdict["verdict"],
                ]
            )
        return rows

    def relation(self) -> list[str]:
        """Return a row: the relation of performance and isotropy, and gains of negative lambdas here and reported."""
        relation = self.conclusion["relation"]
        gains = [row["estimate"] for row in self.conclusion["differences"] if row["lam"] < 0]
        reported = REPORTED_GAINS.get(self.task, {})
        return [
            f"{self.task} ({TASKS[self.task].metric})",
            _format_number(relation["spearman"], "+.2f"),
            "<0.001" if relation["p"] and relation["p"] < 0.001 else _format_number(relation["p"], ".3f"),
            self.conclusion["shape"],
            _format_number(100 * max(gains) if gains else None, "+.1f"),
            ", ".join(f"{model} {_format_number(gain, '+.2f')}" for model, gain in reported.items()) or "–",
        ]


@dataclass
class Report:
    """The results of a budget."""

    budget: Budget
    curves: list[Curve] = field(default_factory=list)
    environments: list[Mapping[str, Any]] = field(default_factory=list)

    def markdown(self) -> str:
        """Return the section in Markdown."""
        environments = dict.fromkeys(map(_describe_environment, self.environments))
        parts = [f"```\n{self.command()}\n```", "\n".join(environments), self._failure_list()]
        for model in self.budget.models:
            curves = [curve for curve in self.curves if curve.model == model]
            head = ["task", "λ", "IsoScore★", "performance", "seeds", "difference from λ = 0", "verdict"]
            ends = ["task", "ρ", "p", "shape", "best λ < 0, points", "reported, points"]
            tasks_by_sentence: dict[str, list[str]] = {}
            for curve in curves:
                tasks_by_sentence.setdefault(curve.conclusion["sentences"][0], []).append(curve.task)
            parts += [
                f"### {model}",
                _table(head, [row for curve in curves for row in curve.rows()]),
                _table(ends, [curve.relation() for curve in curves]),
                "\n".join(f"- **{', '.join(tasks)}**: {sentence}" for sentence, tasks in tasks_by_sentence.items()),
            ]
        return "\n\n".join(filter(None, parts))

    def command(self) -> str:
        """Return the shell command that repeats these runs."""
        words = ["python", "-m", "benchmarks.reproduction"]
        for name, value in dataclasses.asdict(self.budget).items():
            if value != getattr(Budget(), name):
                values = value if isinstance(value, tuple) else (value,)
                words += [f"--{name.replace('_', '-')}", *map(str, values)]
        return f"ISOSCOPE_BENCH_DATA=<folder> {shlex.join(words)}"

    def _failure_list(self) -> str:
        failures = [
            f"- {curve.model}, {curve.task}, λ = {run['lam']:g}, seed {run['seed']}: {run['status']}. "
            + one_line(run["error"] or "")
            for curve in self.curves
            for run in curve.runs
            if run["status"] != "finished"
        ]
        return "\n".join(["Runs that did not finish:", "", *failures]) if failures else ""


def replace_section(document: str, section: str) -> str:
    """Return a document with the section between its two markers replaced."""
    if document.count(BEGIN) != 1 or document.count(END) != 1 or document.index(BEGIN) > document.index(END):
        raise ValueError(f"expected a document with one line {BEGIN} and below it one line {END}")
    before, after = document.index(BEGIN) + len(BEGIN), document.index(END)
    return f"{document[:before]}\n\n{section}\n\n{document[after:]}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])


def _describe_environment(environment: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
    return (
        f"Trained on {environment['device_name']}, {plural(environment['threads'], 'thread')}, "
        f"{environment['platform']}, Python {environment['python']}, {versions}."
    )


def _format_number(value: float | None, style: str) -> str:
    return "–" if value is None else format(value, style).replace("-", "−")


def _format_interval(verdict: Mapping[str, Any]) -> str:
    estimate, *ends = (_format_number(verdict[name], "+.3f") for name in ("estimate", "low", "high"))
    return estimate if "–" in ends else f"{estimate} ({' to '.join(ends)})"
