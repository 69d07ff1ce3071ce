"""Sweeps at the command line: upload a data set, launch a sweep, open its test scores."""

import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path

from isoscope.cli.printing import note, number, table, upload_progress, write, write_json
from isoscope.client import Isoscope
from isoscope.client.connection import Row
from isoscope.client.training import UNFINISHED_STATUSES
from isoscope.core.formatting import about, plural, size

QUOTING_MEANINGS = {"text": "are part of the text", "quoted": "enclose cells"}
SPLITS = ("train", "validation", "test")
STANDARD_INPUT = "-"
HEADERS = ("Setting", "Choice", "Seeds", "Test", "95% ±", "Difference", "95% ±", "Validation")


def upload_dataset_arguments(command: ArgumentParser) -> None:
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
            f"--{split}-values", metavar="VALUES", help=f"values of {split} rows, with commas (default: {split})"
        )
    command.add_argument(
        "--quoting",
        choices=tuple(QUOTING_MEANINGS),
        help="how quotes of .tsv files are read (default: they enclose cells where every one does)",
    )
    command.add_argument("--name", help="name on the dashboard (default: the train file's)")


def upload_dataset(isoscope: Isoscope, arguments: Namespace) -> int:
    """Upload the rows of a data set to a dashboard: train and validation, and test rows whose scores are sealed."""
    files = [file for file in (arguments.train, arguments.validation, arguments.test) if file is not None]
    value_texts = {split: getattr(arguments, f"{split}_values") for split in SPLITS}
    split_values = {split: text.split(",") for split, text in value_texts.items() if text is not None}
    with upload_progress(files) as progress:
        dataset = isoscope.upload_dataset(
            arguments.train,
            arguments.validation,
            test=arguments.test,
            validation_fraction=arguments.validation_fraction,
            test_fraction=arguments.test_fraction,
            split_seed=arguments.seed,
            split_column=arguments.split_column,
            split_values=split_values,
            quoting=arguments.quoting,
            name=arguments.name,
            progress=progress,
        )
    if arguments.json:
        return write_json(dataset)
    counts = ", ".join(f"{dataset[f'n_{split}']} {split}" for split in SPLITS if dataset[f"n_{split}"] is not None)
    quoting_by_split = dataset["quoting"] or {}
    quoting_lines = [f"quotes of {split} rows {QUOTING_MEANINGS[name]}" for split, name in quoting_by_split.items()]
    return write([f"{dataset['name']}: {isoscope.url}/datasets/{dataset['id']}", f"rows: {counts}", *quoting_lines])


def sweep_arguments(command: ArgumentParser) -> None:
    command.add_argument("file", metavar="FILE", help="YAML file, or - for standard input")
    command.add_argument("--dataset", metavar="NAME", help="data set by name or id, instead of dataset_id in the file")
    command.add_argument("--name", help="name of the experiment, instead of the one in the file")
    command.add_argument("--plan", action="store_true", help="print runs, steps and estimated time; launch nothing")
    _add_wait_argument(command)


def _add_wait_argument(command: ArgumentParser) -> None:
    command.add_argument("--wait", action="store_true", help="wait until all runs end; exit 1 if one did not finish")


def sweep(isoscope: Isoscope, arguments: Namespace) -> int:
    """Launch a sweep that a YAML file describes, as every launch page and experiment gives one."""
    from isoscope.files.yaml_document import MAX_CHARACTERS, read_yaml  # noqa: PLC0415

    request = (
        read_yaml(sys.stdin.read(MAX_CHARACTERS + 1)) if arguments.file == STANDARD_INPUT else Path(arguments.file)
    )
    settings = isoscope.settings_of(request, arguments.dataset) | ({"name": arguments.name} if arguments.name else {})
    if arguments.plan:
        preview = isoscope.plan_sweep(settings)
        if arguments.json:
            return write_json(preview)
        steps, estimate = plural(preview["steps"], "step"), preview["estimate"]
        if estimate is None:
            return write([preview["words"], *preview["notes"], f"{steps}. {preview['no_estimate']}"])
        tokens = preview["tokens"]
        lines = [
            preview["words"],
            *preview["notes"],
            f"{steps}, about {about(estimate['seconds'])} on {estimate['device']}, one run at a time. The longest run: "
            f"about {about(estimate['longest_seconds'])}.",
            "Not included: early stops, evaluations that choose a checkpoint, writing checkpoints and models, "
            "downloads.",
            f"{size(preview['passing_bytes'])} of the disk while a run trains, {size(preview['kept_bytes'])} kept",
            f"{tokens['n_cut']} of {tokens['n_sampled']} rows are longer than {tokens['max_length']} tokens",
        ]
        return write(lines)
    return _follow(isoscope, isoscope.sweep(settings), arguments)


def _follow(isoscope: Isoscope, experiment: Row, arguments: Namespace) -> int:
    """Print the address of an experiment, or with ``--wait`` how its runs ended. Return the exit code."""
    address_line = f"{experiment['name']}: {isoscope.url}/experiments/{experiment['id']}"
    if not arguments.wait:
        return write_json(experiment) if arguments.json else write([address_line])
    note(address_line)

    def note_progress(record: Row) -> None:
        n_ended = sum(run["status"] not in UNFINISHED_STATUSES for run in record["runs"])
        note(f"{n_ended} of {len(record['runs'])} runs have ended")

    ended_experiment = isoscope.wait(experiment, note_progress)
    if ended_experiment["held"]:
        note(f"{ended_experiment['held']} To run them anyway: isoscope resume {experiment['id']}")
    counts = Counter(run["status"] for run in ended_experiment["runs"])
    line = ", ".join(f"{count} {status}" for status, count in counts.items())
    write_code = write_json(ended_experiment) if arguments.json else write([line])
    has_failures = counts["finished"] + counts["pruned"] < counts.total()
    return 1 if has_failures else write_code


def resume_arguments(command: ArgumentParser) -> None:
    command.add_argument("experiment", metavar="EXPERIMENT", help="name or id of the experiment")


def resume(isoscope: Isoscope, arguments: Namespace) -> int:
    """Queue the paused runs of an experiment, those too that wait since its first run failed."""
    row = isoscope.resume_experiment(isoscope.find_experiment(arguments.experiment))
    n_queued = sum(run["status"] == "queued" for run in row["runs"])
    return write_json(row) if arguments.json else write([f"{row['name']}: {plural(n_queued, 'run')} queued"])


def add_seeds_arguments(command: ArgumentParser) -> None:
    command.add_argument("experiment", metavar="EXPERIMENT", help="name or id of the experiment")
    command.add_argument("--seeds", type=int, metavar="N", help="how many (default: as its conclusion proposes)")
    _add_wait_argument(command)


def add_seeds(isoscope: Isoscope, arguments: Namespace) -> int:
    """Add seeds to the settings without a verdict and their baselines; verdicts then have one more look's level."""
    experiment = isoscope.add_seeds(isoscope.find_experiment(arguments.experiment), arguments.seeds)
    return _follow(isoscope, experiment, arguments)


def open_test_arguments(command: ArgumentParser) -> None:
    command.add_argument("experiment", metavar="EXPERIMENT", help="name or id of the experiment")
    command.add_argument("--choose", metavar="CHOICE", help="a setting, such as 'lambda = -1', or the id of a run")
    command.add_argument("--note", default="", help="note on why you chose it")
    command.add_argument("--by", default="", metavar="NAME", help="who chooses (default: the local user)")


def open_test(isoscope: Isoscope, arguments: Namespace) -> int:
    """Freeze a choice of an experiment and open its sealed test scores; without --choose, list what can be chosen."""
    experiment = isoscope.find_experiment(arguments.experiment)
    if arguments.choose is None:
        opening = isoscope.test_scores(experiment)
        if arguments.json:
            return write_json(opening)
        if opening["scores"]:
            return write(_score_lines(opening))
        if opening["state"] == "none":
            return write(["There are no test scores: the data set has no test split."])
        note("The test scores are sealed. Freeze a choice with --choose. It is recorded permanently.")
        return write([setting["label"] for setting in opening["settings"]])
    opening = isoscope.open_test(experiment, arguments.choose, note=arguments.note, by=arguments.by)
    return write_json(opening) if arguments.json else write(_score_lines(opening))


def _score_lines(opening: Row) -> list[str]:
    """Return the score of the first choice, later changes of the choice, and a table of all settings."""
    first_opening, *later_openings = opening["openings"]
    estimate = opening["chosen"]["test"] or {"mean": None, "ci95_half_width": None}
    margin = "" if estimate["ci95_half_width"] is None else f" ± {number(estimate['ci95_half_width'])}"
    history = (
        f"{first_opening['opened_before']} opened on these rows before"
        if first_opening["opened_before"]
        else "none opened before"
    )
    lines = [
        f"{first_opening['label']}: {opening['metric']} {number(estimate['mean'])}{margin} on {opening['n']} "
        f"test rows, chosen by {first_opening['by']} at {first_opening['at'][:16].replace('T', ' ')} UTC ({history})"
    ]
    lines += [f"changed afterward: {row['label']}, by {row['by']}" for row in later_openings]
    rows = []
    for score in opening["scores"]:
        test, difference, validation = score["test"] or {}, score["difference"] or {}, score["validation"] or {}
        rows.append(
            (
                score["label"],
                # The number of the opening that chose this setting, or None.
                {None: "not chosen", 1: "chosen"}.get(score["chosen"], "chosen afterward"),
                str(test.get("n", "-")),
                number(test.get("mean")),
                number(test.get("ci95_half_width")),
                number(difference.get("mean")),
                number(difference.get("ci95_half_width")),
                number(validation.get("mean")),
            )
        )
    return [*lines, *table(HEADERS, rows)]
