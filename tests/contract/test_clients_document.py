import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from app.db import job_kinds
from isoscope.cli import COMMANDS
from isoscope.client import Isoscope
from tests.job_loops import job_thread
from tests.serving import web_process

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs/clients.md").read_text()
ROWS = [f"text {i}\t{i % 2}\n" for i in range(20)]


def find_examples(language):
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.mark.long
@pytest.mark.slow
def test_examples_run(context, tmp_path, cloud):
    np.save(tmp_path / "embeddings.npy", cloud)
    for name, rows in (("train.tsv", ROWS[:12]), ("validation.tsv", ROWS[12:16]), ("test.tsv", ROWS[16:])):
        (tmp_path / name).write_text("".join(["sentence\tlabel\n", *rows]))
    [yaml], [shell] = find_examples("yaml"), find_examples("sh")
    (tmp_path / "sweep.yaml").write_text(yaml)
    (tmp_path / "examples.py").write_text("\n".join(find_examples("python")))
    (tmp_path / "isoscope").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m isoscope "$@"\n')
    (tmp_path / "isoscope").chmod(0o755)
    measuring = job_thread(context, lambda job: job.kind is not job_kinds.FINETUNE)  # runs stay queued
    with web_process(context.settings) as address, measuring, Isoscope(address) as isoscope:
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "ISOSCOPE_URL": address}
        for command in (["bash", "-ec", shell], [sys.executable, "-P", "examples.py"]):
            process = subprocess.run(
                command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200
            )
            assert process.returncode == 0, process.stderr
            if command[0] == "bash":
                # 2 rates x 2 seeds
                assert process.stdout.count("queued  istar") == 4
            else:
                assert float(process.stdout.split()[0]) > 0
                assert process.stdout.endswith(
                    "There is no run 'of another server'; it may have been deleted with its experiment. 404\n"
                )
        assert [experiment["total"] for experiment in isoscope.experiments()] == [12, 12, 12]
        assert (tmp_path / "films.zip").stat().st_size > 0


def test_table_lists_every_client_command():
    commands = re.findall(r"^\| `isoscope ([\w-]+)", DOCUMENT, re.MULTILINE)
    local, remote = (
        [name for name, cmd in COMMANDS.items() if cmd.module and cmd.needs_dashboard is asks] for asks in (False, True)
    )
    assert commands == [*local, *remote]
