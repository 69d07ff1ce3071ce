"""False positives, coverage and power of every test and interval of the conclusions, where the truth is known.

Run: python -m benchmarks.calibration [--only WORDS] [--simulations N] [--processes N]
"""

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks import (
    _calibration_cards,
    _calibration_clouds,
    _calibration_sweeps,
    _calibration_tasks,
    _calibration_verdicts,
)
from benchmarks._calibration import HEAD, rates, row
from benchmarks._calibration_cards import CardRates
from benchmarks._calibration_verdicts import VerdictRates
from benchmarks._rounds import machine

KINDS = (_calibration_sweeps, _calibration_clouds, _calibration_tasks)  # Modules that have `cases()`
SWEEP_TABLES: tuple[tuple[str, Sequence[Any], Callable[[Any, int | None], VerdictRates | CardRates]], ...] = (
    (_calibration_verdicts.HEAD, _calibration_verdicts.CASES, _calibration_verdicts.verdict_rates),
    (_calibration_cards.HEAD, _calibration_cards.CASES, _calibration_cards.card_rates),
)


def main() -> None:
    """Print a table of all cases; end with 1 where a rate lies outside its bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    parser.add_argument("--simulations", type=int, help="of each case, in place of its own number")
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    print(machine("numpy"))
    all_ok = True
    for head, cases, simulate in SWEEP_TABLES:
        print(f"\n{head}", flush=True)
        named = [case for case in cases if arguments.only in case.name]
        with ProcessPoolExecutor(arguments.processes) as pool:
            for case_rates in pool.map(simulate, named, [arguments.simulations] * len(named)):
                print(case_rates.row(), flush=True)
                all_ok &= case_rates.ok()
    chosen = [case for kind in KINDS for case in kind.cases() if arguments.only in case.name]
    print(f"\n{HEAD}", flush=True)
    for claim in rates(chosen, arguments.simulations, arguments.processes):
        print(row(claim), flush=True)
        all_ok &= claim.ok()
    raise SystemExit(0 if all_ok else 1)


if __name__ == "__main__":
    main()
