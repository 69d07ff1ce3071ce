"""What there is to compute on. Torch is asked in a process of its own: it is heavy, and may be broken."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec

from app.operations.finding import Finding, ok, problem
from app.settings import Settings

SECONDS = 120
QUESTION = """
import json, torch
gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
print(json.dumps({"torch": torch.__version__, "gpus": gpus, "mps": torch.backends.mps.is_available()}))
"""


def has_torch() -> bool:
    """Whether this installation can compute, or only serve pages."""
    return find_spec("torch") is not None


def devices(settings: Settings) -> Iterator[Finding]:
    """Torch, the GPUs it sees, and whether the device asked for is among them."""
    if not has_torch():
        yield ok("devices", "Torch is not installed: this installation serves pages, and workers run elsewhere.")
        return
    try:
        answer = subprocess.run(  # noqa: S603 - our own words
            [sys.executable, "-c", QUESTION], check=True, capture_output=True, text=True, timeout=SECONDS
        )
        found = json.loads(answer.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        yield problem("devices", f"Torch did not start within {SECONDS} s.", "Restart the machine's GPU driver.")
        return
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["it said nothing"])[-1]
        yield problem("devices", f"Torch is installed and does not start: {last}.", "Install it anew: make clean run")
        return
    offered = ["cpu", *(["mps"] if found["mps"] else []), *(f"cuda:{index}" for index in range(len(found["gpus"])))]
    names = ", ".join(found["gpus"]) or "no CUDA GPU"
    described = f"torch {found['torch']} offers {', '.join(offered)} ({names})"
    if settings.device in ("auto", *offered) or (settings.device == "cuda" and found["gpus"]):
        yield ok("devices", f"{described}.")
    else:
        advice = "Choose one of these, or auto; for a GPU see that its driver is installed and visible here."
        yield problem("devices", f"ISOSCOPE_DEVICE is {settings.device}, but {described}.", advice)
