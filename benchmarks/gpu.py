"""Print how fast fine-tunes are on a GPU: a step with each regularizer, a whole run, and runs side by side.

Run: ISOSCOPE_BENCH_DATA=FOLDER python -m benchmarks.gpu, with rte/train.tsv and rte/validation.tsv
"""

import os
import subprocess
import sys

PARTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("regularizers", {"BATCH": "32", "ROUNDS": "5"}),
    ("regularizers", {"BATCH": "8", "ROUNDS": "5"}),
    ("whole_run", {"ROUNDS": "3"}),
    ("side_by_side", {}),
)


def main() -> None:
    """Run each benchmark in a process of its own, so that a failure of one leaves the figures of the others."""
    failures = 0
    for name, variables in PARTS:
        print(f"\n## {name} {' '.join(f'{key}={value}' for key, value in variables.items())}\n", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}"]
        failures += subprocess.run(command, env=os.environ | variables, check=False).returncode != 0
    raise SystemExit(failures)


if __name__ == "__main__":
    main()
