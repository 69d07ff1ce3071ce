"""False positives and coverage of every test and interval of the conclusions, on data of which the truth is known.

Run: python -m benchmarks.calibration [--only WORDS] [--simulations N] [--processes N]
"""

import argparse

from benchmarks import _calibration_clouds, _calibration_sweeps, _calibration_tasks
from benchmarks._calibration import HEAD, rates, row
from benchmarks._rounds import machine

KINDS = (_calibration_sweeps, _calibration_clouds, _calibration_tasks)  # Modules that have `cases()`


def main() -> None:
    """Print a table of all cases; end with 1 where a rate lies outside its bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    parser.add_argument("--simulations", type=int, help="of each case, in place of its own number")
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args()
    chosen = [case for kind in KINDS for case in kind.cases() if asked.only in case.name]
    print(f"{machine('numpy')}\n\n{HEAD}", flush=True)
    all_ok = True
    for found in rates(chosen, asked.simulations, asked.processes):
        print(row(found), flush=True)
        all_ok &= found.ok()
    raise SystemExit(0 if all_ok else 1)


if __name__ == "__main__":
    main()
