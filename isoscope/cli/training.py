"""Sweeps at the command line: upload a data set, launch a sweep, open its test scores."""

import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path

from isoscope.cli.printing import number, sending, table, tell, write, write_json
from isoscope.client import Isoscope
from isoscope.client.connection import Row
from isoscope.client.training import MOVING
from isoscope.core.formatting import about, plural, size

MEANINGS = {"text": "are part of the text", "quoted": "enclose cells"}
"""Of the quotes in .tsv files."""
SPLITS = ("train", "validation", "test")
STANDARD_INPUT = "-"
HEADS = ("Setting", "Choice", "Seeds", "Test", "95% ±", "Difference", "95% ±", "Validation")


def upload_dataset_arguments(command: ArgumentParser) -> None:
    """Add the arguments of ``isoscope upload-dataset``."""
    command.add_argument("train", type=Path, metavar="TRAIN", help="train rows, or all rows if they are to be split")
    command.add_argument("validation", type=Path, nargs="?", metavar="VALIDATION", help="validation rows")
    command.add_argument("--test", type=Path, metavar="FILE", help="test rows with labels; scores on them are sealed")
    for split in ("validation", "test"):
        command.add_argument(
            f"--{split}-fraction",
            type=float,
            metavar="F",
            help=f"hold out this fraction of the train rows as {split} rows",
        )
    command.add_argument("--seed", type=int, default=0, help="seed of the fractions (default: 0)")
    command.add_argument("--split-column", metavar="COL", help="column that names the split of each row")
    for split in SPLITS:
        command.add_argument(
            f"--{split}-values",
            metavar="VALUES",
            help=f"values of {split} rows, with commas (default: {split})",
        )
    command.add_argument(
        "--quoting",
        choices=tuple(MEANINGS),
        help="how quotes of .tsv files are read (default: they enclose cells where every one does)",
    )
    command.add_argument("--name", help="name on the dashboard (default: the train file's)")


def upload_dataset(isoscope: Isoscope, given: Namespace) -> int:
    """Upload the rows of a data set to a dashboard: train and validation, and test rows whose scores are sealed."""
    files = [file for file in (given.train, given.validation, given.test) if file is not None]
    values = {split: text.split(",") for split in SPLITS if (text := getattr(given, f"{split}_values")) is not None}
    with sending(files) as progress:
        found = isoscope.upload_dataset(
            given.train,
            given.validation,
            test=given.test,
            validation_fraction=given.validation_fraction,
            test_fraction=given.test_fraction,
            split_seed=given.seed,
            split_column=given.split_column,
            split_values=values,
            quoting=given.quoting,
            name=given.name,
            progress=progress,
        )
    if given.json:
        return write_json(found)
    counts = ", ".join(f"{found[f'n_{split}']} {split}" for split in SPLITS if found[f"n_{split}"] is not None)
    quotes = [f"quotes of {split} rows {MEANINGS[reading]}" for split, reading in (found["quoting"] or {}).items()]
    return write([f"{found['name']}: {isoscope.url}/datasets/{found['id']}", f"rows: {counts}", *quotes])


def sweep_arguments(command: ArgumentParser) -> None:
    """Add the arguments of ``isoscope sweep``."""
    command.add_argument("file", metavar="FILE", help="YAML file, or - for standard input")
    command.add_argument("--dataset", metavar="NAME", help="data set by name or id, instead of dataset_id in the file")
    command.add_argument("--name", help="name of the experiment, instead of the one in the file")
    command.add_argument("--plan", action="store_true", help="print runs, steps and estimated time; launch nothing")
    command.add_argument("--wait", action="store_true", help="wait until all runs end; exit 1 if one did not finish")


def sweep(isoscope: Isoscope, given: Namespace) -> int:
    """Launch a sweep that a YAML file describes, as every launch page and experiment gives one."""
    from isoscope.files.yaml_document import MAX_CHARACTERS, read_yaml  # noqa: PLC0415

    request = read_yaml(sys.stdin.read(MAX_CHARACTERS + 1)) if given.file == STANDARD_INPUT else Path(given.file)
    settings = isoscope.settings_of(request, given.dataset) | ({"name": given.name} if given.name else {})
    if given.plan:
        preview = isoscope.plan_sweep(settings)
        lines = [preview["words"], *preview["notes"], *_cost(preview)]
        return write_json(preview) if given.json else write(lines)
    experiment = isoscope.sweep(settings)
    where = f"{experiment['name']}: {isoscope.url}/experiments/{experiment['id']}"
    if not given.wait:
        return write_json(experiment) if given.json else write([where])
    tell(where)
    ended = isoscope.wait(experiment, _tell_progress)
    if ended["held"]:
        tell(f"{ended['held']} To run them anyway: isoscope resume {experiment['id']}")
    counts = Counter(run["status"] for run in ended["runs"])
    line = ", ".join(f"{count} {status}" for status, count in counts.items())
    return (write_json(ended) if given.json else write([line])) or int(
        counts["finished"] + counts["pruned"] < counts.total()
    )


def _cost(preview: Row) -> list[str]:
    steps, estimate = plural(preview["steps"], "step"), preview["estimate"]
    if estimate is None:
        return [f"{steps}. {preview['no_estimate']}"]
    lines = [
        f"{steps}, about {about(estimate['seconds'])} on {estimate['device']}, one run at a time. The longest run: "
        f"about {about(estimate['longest_seconds'])}.",
        "Not included: early stops, evaluations that choose a checkpoint, writing checkpoints and models, downloads.",
        f"{size(preview['passing_bytes'])} of the disk while a run trains, {size(preview['kept_bytes'])} kept",
    ]
    tokens = preview["tokens"]
    return [*lines, f"{tokens['n_cut']} of {tokens['n_sampled']} rows are longer than {tokens['max_length']} tokens"]


def _tell_progress(experiment: Row) -> None:
    ended = sum(run["status"] not in MOVING for run in experiment["runs"])
    tell(f"{ended} of {len(experiment['runs'])} runs have ended")


def resume_arguments(command: ArgumentParser) -> None:
    """Add the arguments of ``isoscope resume``."""
    command.add_argument("experiment", metavar="EXPERIMENT", help="name or id of the experiment")


def resume(isoscope: Isoscope, given: Namespace) -> int:
    """Queue the paused runs of an experiment, those too that wait since its first run failed."""
    found = isoscope.resume_experiment(isoscope.find_experiment(given.experiment))
    queued = sum(run["status"] == "queued" for run in found["runs"])
    return write_json(found) if given.json else write([f"{found['name']}: {plural(queued, 'run')} queued"])


def open_test_arguments(command: ArgumentParser) -> None:
    """Add the arguments of ``isoscope open-test``."""
    command.add_argument("experiment", metavar="EXPERIMENT", help="name or id of the experiment")
    command.add_argument("--choose", metavar="CHOICE", help="a setting, such as 'lambda = -1', or the id of a run")
    command.add_argument("--note", default="", help="note on why you chose it")
    command.add_argument("--by", default="", metavar="NAME", help="who chooses (default: the local user)")


def open_test(isoscope: Isoscope, given: Namespace) -> int:
    """Freeze a choice of an experiment and open its sealed test scores; without --choose, list what can be chosen."""
    experiment = isoscope.find_experiment(given.experiment)
    if given.choose is None:
        found = isoscope.test_scores(experiment)
        if given.json:
            return write_json(found)
        return write(_scores(found) if found["scores"] else _sealed(found))
    found = isoscope.open_test(experiment, given.choose, note=given.note, by=given.by)
    return write_json(found) if given.json else write(_scores(found))


def _sealed(found: Row) -> list[str]:
    if found["state"] == "none":
        return ["There are no test scores: the data set has no test split."]
    tell("The test scores are sealed. Freeze a choice with --choose. It is recorded permanently.")
    return [one["label"] for one in found["settings"]]


def _scores(found: Row) -> list[str]:
    first, *later = found["openings"]
    chosen = found["chosen"]
    before = f"{first['opened_before']} opened on these rows before" if first["opened_before"] else "none opened before"
    lines = [
        f"{first['label']}: {found['metric']} {_estimate(chosen['test'])} on {found['n']} test rows, chosen by "
        f"{first['by']} at {first['at'][:16].replace('T', ' ')} UTC ({before})"
    ]
    lines += [f"changed afterward: {one['label']}, by {one['by']}" for one in later]
    return [*lines, *table(HEADS, [_cells(one) for one in found["scores"]])]


def _estimate(one: Row | None) -> str:
    if one is None:
        return "-"
    half = one["ci95_half_width"]
    return number(one["mean"]) if half is None else f"{number(one['mean'])} ± {number(half)}"


def _cells(one: Row) -> tuple[str, ...]:
    mark = "not chosen" if one["chosen"] is None else "chosen" if one["chosen"] == 1 else "chosen afterward"
    test, difference, validation = one["test"] or {}, one["difference"] or {}, one["validation"] or {}
    return (
        one["label"],
        mark,
        str(test.get("n", "-")),
        number(test.get("mean")),
        number(test.get("ci95_half_width")),
        number(difference.get("mean")),
        number(difference.get("ci95_half_width")),
        number(validation.get("mean")),
    )
