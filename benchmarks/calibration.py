"""False positives, coverage and power of every test and interval of the conclusions, where the truth is known.

Run: python -m benchmarks.calibration [--only WORDS] [--simulations N] [--processes N]
"""

import argparse
from concurrent.futures import ProcessPoolExecutor

from benchmarks import _calibration_clouds, _calibration_sweeps, _calibration_tasks, _calibration_verdicts
from benchmarks._calibration import HEAD, rates, row
from benchmarks._rounds import machine

KINDS = (_calibration_sweeps, _calibration_clouds, _calibration_tasks)  # Modules that have `cases()`


def main() -> None:
    """Print a table of all cases; end with 1 where a rate lies outside its bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    parser.add_argument("--simulations", type=int, help="of each case, in place of its own number")
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    all_ok = print_verdicts(arguments.only, arguments.simulations, arguments.processes)
    chosen = [case for kind in KINDS for case in kind.cases() if arguments.only in case.name]
    print(f"\n{HEAD}", flush=True)
    for claim in rates(chosen, arguments.simulations, arguments.processes):
        print(row(claim), flush=True)
        all_ok &= claim.ok()
    raise SystemExit(0 if all_ok else 1)


def print_verdicts(only: str, simulations: int | None, processes: int) -> bool:
    """Print the table of verdicts of sweeps, and return whether all rates are within their bounds."""
    cases = [case for case in _calibration_verdicts.CASES if only in case.name]
    print(f"{machine('numpy')}\n\n{_calibration_verdicts.HEAD}", flush=True)
    all_ok = True
    with ProcessPoolExecutor(processes) as pool:
        for verdicts in pool.map(_calibration_verdicts.verdict_rates, cases, [simulations] * len(cases)):
            print(verdicts.row(), flush=True)
            all_ok &= verdicts.ok()
    return all_ok


if __name__ == "__main__":
    main()
