"""The files inside of an exported experiment: their names, what each holds, and how large it may be."""

import re

FORMAT = 1
"""Raised when an older Isoscope would misread what a newer one writes."""

MIB = 2**20

MANIFEST = "manifest.json"
README = "README.txt"
EXPERIMENT = "experiment.json"
RUNS = "runs.jsonl"
STEPS = "steps.jsonl"
RUN_FIGURES = "run_figures.jsonl"
PREDICTIONS = "predictions.jsonl"
FIGURE = re.compile(r"figures/[a-z0-9_-]{1,60}\.(json|csv)")

ROWS = (EXPERIMENT, RUNS, STEPS, RUN_FIGURES)
"""Members that an import reads and that every export has."""

LATER_ROWS = (PREDICTIONS,)
"""Members that an import reads where there are any: exports of earlier versions lack them. The rest is for people."""

MAX_BYTES = {
    MANIFEST: 1 * MIB,
    README: 1 * MIB,
    EXPERIMENT: 16 * MIB,
    RUNS: 1024 * MIB,
    STEPS: 8 * 1024 * MIB,
    RUN_FIGURES: 1024 * MIB,
    PREDICTIONS: 2 * 1024 * MIB,
}
MAX_FIGURE_BYTES = 512 * MIB
MAX_MEMBERS = 300
MAX_LINE_BYTES = 16 * MIB
MAX_RUNS = 10_000
MAX_STEPS = 10_000_000

TOLD = """An experiment of Isoscope {version}, format {format}, exported at {exported_at}.

Another Isoscope reads this file whole: Experiments, Import; or
  curl -F file=@this.zip http://127.0.0.1:8000/api/experiments/import

manifest.json      format, version, time, and the SHA-256 and size of every other file
experiment.json    name, settings that all runs share, values that they differ in, data set with its files' hashes
runs.jsonl         a run a line: settings, status, times, performance and IsoScore*, results, environment, notes, log
steps.jsonl        a logged step a line, none left out: run, step, task_loss, penalty, and measures by layer
run_figures.jsonl  what figures of a run show that no other file holds, such as its activation by dimension
predictions.jsonl  predictions of runs by validation row, up to 5,000 rows a line; positions are from 0
figures/           the figures of the experiment's page: plotly JSON, and the numbers of each as CSV

Times are in UTC. A value that is undefined is null, with the reason beside it; NaN and infinity are never written.
Trained models are not inside; each run's own page has them. In Python:
  runs = pandas.read_json("runs.jsonl", lines=True); steps = pandas.read_json("steps.jsonl", lines=True)
  plotly.io.read_json("figures/isotropy.json").show()
"""


def known(name: str) -> bool:
    """Whether a file of that name belongs into an export."""
    return name in MAX_BYTES or FIGURE.fullmatch(name) is not None


def max_bytes(name: str) -> int:
    """How many bytes it may unpack to."""
    return MAX_BYTES.get(name, MAX_FIGURE_BYTES)
