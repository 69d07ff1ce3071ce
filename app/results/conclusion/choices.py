"""What can be chosen of an experiment before its test scores are opened: a setting with all its seeds, or one run."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from app.db.models import ChoiceKind, Run, RunStatus
from app.errors import InvalidError
from app.results.statistics.repeats import by_seed
from app.results.sweep import Sweep

MOST_LISTED = 20
SPELLINGS = ((r"\s", ""), (r"−", "-"), (r"λ|\blam(?=[=≤≥<>])", "lambda"), (r"ζ", "zeta"), (r"(?<=\d)\.0+(?!\d)", ""))
"""What counts as the same in a choice that is typed."""


@dataclass(frozen=True)
class Choice:
    """A setting or a run, and what it is called."""

    kind: ChoiceKind
    label: str
    runs: Sequence[Run]
    """Of a setting all seeds, of a run that one."""

    @property
    def position(self) -> int:
        """What names it in its experiment, also where that is imported under other ids."""
        return min(run.position for run in self.runs)

    @property
    def validation(self) -> float | None:
        """The mean of its performance on validation rows, each seed counted once."""
        scored = by_seed((run.seed, run.performance) for run in self.runs if run.performance is not None)
        return fmean(scored.values()) if scored else None


def settings_of(sweep: Sweep) -> list[Choice]:
    """Return every setting of which a run has finished, by lambda."""
    return [
        Choice(ChoiceKind.SETTING, sweep.label(setting), runs)
        for setting, runs in sweep.by_setting(sweep.runs).items()
        if any(run.status is RunStatus.FINISHED for run in runs)
    ]


def runs_of(sweep: Sweep) -> list[Choice]:
    """Return every finished run, by lambda and seed."""
    return [
        Choice(ChoiceKind.RUN, f"{sweep.label(setting)}, seed {run.seed}", [run])
        for setting, runs in sweep.by_setting(sweep.runs).items()
        for run in sorted(runs, key=lambda run: (run.seed, run.position))
        if run.status is RunStatus.FINISHED
    ]


def find_choice(sweep: Sweep, text: str) -> Choice:
    """Return the choice that is meant by a label or by the id of a run.

    Raises:
        InvalidError: with what can be chosen.

    """
    if by_id := next((one for one in runs_of(sweep) if one.runs[0].id == text.strip()), None):
        return by_id
    wanted = _spelled(text)
    if found := next((one for one in _all(sweep) if _spelled(one.label) == wanted), None):
        return found
    labels = [one.label for one in settings_of(sweep)]
    more = f"; and {len(labels) - MOST_LISTED} more" if len(labels) > MOST_LISTED else ""
    raise InvalidError(
        f"No setting or run {text.strip()[:80]!r}. Settings are: {'; '.join(labels[:MOST_LISTED])}{more}. "
        "A run is chosen by its id, or by its setting and seed.",
        "choose",
    )


def choice_at(sweep: Sweep, kind: ChoiceKind, position: int) -> Choice:
    """Return the choice that was recorded by its position; runs go only with their experiment, so it is there."""
    run = next(run for run in sweep.runs if run.position == position)
    setting = sweep.setting(run)
    label = sweep.label(setting)
    if kind is ChoiceKind.RUN:
        return Choice(kind, f"{label}, seed {run.seed}", [run])
    return Choice(kind, label, [one for one in sweep.runs if sweep.setting(one) == setting])


def _all(sweep: Sweep) -> Iterator[Choice]:
    yield from settings_of(sweep)
    yield from runs_of(sweep)


def _spelled(text: str) -> str:
    spelled = text.casefold()
    for pattern, same in SPELLINGS:
        spelled = re.sub(pattern, same, spelled)
    return spelled
