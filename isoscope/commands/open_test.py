"""Freeze a choice of an experiment and open its sealed test scores; without --choose, list what can be chosen."""

from argparse import ArgumentParser, Namespace

from isoscope.client import Isoscope
from isoscope.output import number, table, tell, write, write_json
from isoscope.remote.connection import Row

HELP = "freeze a choice and open an experiment's test scores"
HEADS = ("Setting", "Choice", "Seeds", "Test", "95% ±", "Difference", "95% ±", "Validation")


def add_arguments(command: ArgumentParser) -> None:
    """Add the arguments."""
    command.add_argument("experiment", metavar="EXPERIMENT", help="its name, or its id, which is in its address")
    command.add_argument("--choose", metavar="CHOICE", help="a setting, such as 'lambda = -1', or the id of a run")
    command.add_argument("--note", default="", help="why, in your words")
    command.add_argument("--by", default="", metavar="NAME", help="who chooses, if not the local user")


def run(isoscope: Isoscope, given: Namespace) -> int:
    """Open the scores and print them, the choice first; or print what can be chosen."""
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
    tell("The test scores are sealed. Freeze a choice with --choose; it is recorded for ever.")
    return [one["label"] for one in found["settings"]]


def _scores(found: Row) -> list[str]:
    first, *later = found["openings"]
    chosen = found["chosen"]
    before = f"{first['opened_before']} opened on these rows before" if first["opened_before"] else "none opened before"
    lines = [
        f"{first['label']}: {found['metric']} {_estimate(chosen['test'])} on {found['n']} test rows, chosen by "
        f"{first['by']} at {first['at'][:16].replace('T', ' ')} UTC ({before})"
    ]
    lines += [f"changed afterwards: {one['label']}, by {one['by']}" for one in later]
    return [*lines, *table(HEADS, [_cells(one) for one in found["scores"]])]


def _estimate(one: Row | None) -> str:
    if one is None:
        return "-"
    half = one["ci95_half_width"]
    return number(one["mean"]) if half is None else f"{number(one['mean'])} ± {number(half)}"


def _cells(one: Row) -> tuple[str, ...]:
    mark = "not chosen" if one["chosen"] is None else "chosen" if one["chosen"] == 1 else "chosen afterwards"
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
