"""``isoscope serve``: migrate, queue the samples, then keep a web process and workers alive until Ctrl-C."""

import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass

from app.context import create_context
from app.core.devices import list_devices
from app.core.process import LIFELINE_FLAG, StopSignals, raise_file_limit
from app.core.settings import Settings
from app.core.space import SpareFile
from app.db.failures import check_after_crash
from app.db.work import FileLocks
from app.operations.health import is_listening, try_listening
from app.operations.migrate import migrate
from app.operations.samples import launch_samples
from isoscope.core.errors import FullDiskError, UnavailableError

POLL_SECONDS = 0.2
EXIT_SECONDS = 20
FIRST_BACK_OFF_SECONDS = 1.0
MAX_BACK_OFF_SECONDS = 30.0
# A process that ran this long was healthy, so its next exit resets the back-off.
STEADY_SECONDS = 60.0


@dataclass
class Child:
    """A process that is started again whenever it ends, after a back-off that doubles while it keeps ending soon."""

    name: str
    command: list[str]
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    restart_at: float = 0.0
    back_off: float = FIRST_BACK_OFF_SECONDS

    def ensure_running(self, now: float) -> None:
        """Start the process if it is not running and its back-off has passed."""
        if self.process is not None:
            if (exit_code := self.process.poll()) is None:
                return
            if now - self.started_at > STEADY_SECONDS:
                self.back_off = FIRST_BACK_OFF_SECONDS
            print_line(f"the {self.name} process ended ({exit_code}); starting it again in {self.back_off:.0f} s")
            self.process = None
            self.restart_at = now + self.back_off
            self.back_off = min(2 * self.back_off, MAX_BACK_OFF_SECONDS)
        if now >= self.restart_at:
            # The child has a session of its own, so that Ctrl-C reaches only this process, which stops its children in
            # order. If this process is killed, the child's standard input closes, which ends the child.
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603
            self.started_at = now


def serve(settings: Settings) -> int:
    """Run the dashboard until a stop signal. Return the exit code: 1 if its address is in use, else 0."""
    stop = StopSignals()
    raise_file_limit()
    try:
        try_listening(settings)
    except OSError:
        print_line(
            f"Something else already listens at {settings.host}:{settings.port}, perhaps another Isoscope. "
            "Stop it, or choose another port: ISOSCOPE_PORT=8001"
        )
        return 1
    settings.create_folders()
    marker = settings.root / "locks" / "serve.running"
    refusal = f"Another isoscope serve uses {settings.root}. Stop it first, or set ISOSCOPE_DATA_DIR to another folder."
    with FileLocks(marker.parent).held("serve", refusal), check_after_crash(marker, settings.database, settings.queue):
        prepare_databases(settings)
        keep_alive(settings, stop)
    return 0


def keep_alive(settings: Settings, stop: StopSignals) -> None:
    """Supervise a web process and a worker for each device until a stop signal."""
    python = [sys.executable, "-P"]  # without -P, a folder named app in the working directory would be imported
    web = Child("web", [*python, "-m", "app", LIFELINE_FLAG])
    web.ensure_running(time.monotonic())  # before torch looks for devices, which takes seconds
    worker_command = [*python, "-m", "workers", LIFELINE_FLAG, "--device"]
    children = [web, *(Child(f"worker on {device}", [*worker_command, device]) for device in choose_devices(settings))]
    announced = False
    while not stop.wait(POLL_SECONDS):
        for child in children:
            child.ensure_running(time.monotonic())
        if not announced and is_listening(settings):
            announced = True
            print_line(
                f"Isoscope is at http://{settings.host}:{settings.port}  (Ctrl-C stops it; data in {settings.root})"
            )
    print_line("stopping; interrupted runs resume at the next start")
    processes = [child.process for child in children if child.process is not None]
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + EXIT_SECONDS
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def choose_devices(settings: Settings) -> list[str]:
    """Return the devices that get a worker: all GPUs, or else the best device."""
    if settings.device != "auto":
        return [settings.device]
    try:
        names = [device.name for device in list_devices()]
    except UnavailableError:
        return ["auto"]  # the worker logs why torch does not start
    return [name for name in names if name.startswith("cuda")] or names[:1]


def prepare_databases(settings: Settings) -> None:
    """Create or upgrade both databases, and queue the samples if they are empty."""
    # Startup needs disk space too. If it failed on a full disk, users could not delete anything.
    with SpareFile.from_settings(settings).make_room():
        migrate(settings)
    if settings.sample:
        try:
            with closing(create_context(settings)) as context:
                if launch_samples(context):
                    print_line("the database is empty: a sample embedding and a sample sweep are queued")
        except FullDiskError as error:
            print_line(f"the samples are not queued: {error}")


def print_line(sentence: str) -> None:
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()
