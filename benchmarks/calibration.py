"""Simulate false positives, coverage and power of every test and interval of the conclusions.

Run: python -m benchmarks.calibration [--only WORDS] [--simulations N] [--processes N]
"""

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks import (
    _calibration_cards,
    _calibration_clouds,
    _calibration_cutoffs,
    _calibration_sweeps,
    _calibration_tasks,
    _calibration_upgrade,
    _calibration_verdicts,
)
from benchmarks._calibration import HEAD, rates, row
from benchmarks._calibration_cards import CardRates
from benchmarks._calibration_verdicts import VerdictRates
from benchmarks._rounds import machine

MODULES = (
    _calibration_sweeps,
    _calibration_clouds,
    _calibration_tasks,
    _calibration_cutoffs,
    _calibration_upgrade,
)
SWEEP_TABLES: tuple[tuple[str, Sequence[Any], Callable[[Any, int | None], VerdictRates | CardRates]], ...] = (
    (_calibration_verdicts.HEAD, _calibration_verdicts.CASES, _calibration_verdicts.verdict_rates),
    (_calibration_cards.HEAD, _calibration_cards.CASES, _calibration_cards.card_rates),
)


def main() -> None:
    """Print a table of all cases; exit with 1 if a rate lies outside its bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only cases whose names contain this")
    parser.add_argument("--simulations", type=int, help="simulations of each case (default: as the case says)")
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    print(machine("numpy"))
    all_ok = True
    for head, cases, simulate in SWEEP_TABLES:
        print(f"\n{head}", flush=True)
        selected_cases = [case for case in cases if arguments.only in case.name]
        with ProcessPoolExecutor(arguments.processes) as pool:
            for case_rates in pool.map(simulate, selected_cases, [arguments.simulations] * len(selected_cases)):
                print(case_rates.row(), flush=True)
                all_ok &= case_rates.ok()
    selected_cases = [case for module in MODULES for case in module.cases() if arguments.only in case.name]
    print(f"\n{HEAD}", flush=True)
    for case_rate in rates(selected_cases, arguments.simulations, arguments.processes):
        print(row(case_rate), flush=True)
        all_ok &= case_rate.ok()
    raise SystemExit(0 if all_ok else 1)


if __name__ == "__main__":
    main()
