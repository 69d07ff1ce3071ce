"""Which jobs that run a model share a device: as many as its memory holds, unless one needs whole devices."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import aliased

from app.core.devices import TorchDevice, list_devices
from app.core.process import machine_cores, machine_memory
from app.core.settings import Settings
from app.db.job_kinds import Job
from app.db.models import Attempt, Run, RunStatus
from app.db.models.runs import DeviceLoad
from app.db.session import Sessions
from app.db.work import slot_name
from app.queue import QueueSnapshot
from isoscope.core.errors import UnavailableError

MAX_RUNS_PER_GPU = 8
CORES_PER_RUN = 4
# The remainder is for libraries, fragments, and jobs that run no model.
USABLE_SHARE = 0.9


class Demand(NamedTuple):
    """Processes, devices and memory that a job needs."""

    processes: int = 1
    whole_device: bool = False
    peak_bytes: int | None = None
    """The most memory that a finished run of the same model and experiment has used; None before the first."""

    @property
    def needs_whole_devices(self) -> bool:
        return self.processes > 1 or self.whole_device


@dataclass(frozen=True)
class Device:
    """The device of a worker, and how many jobs may run a model there at once."""

    slot: str
    max_runs: int = 1
    memory_bytes: int | None = None
    """Memory that the jobs share; None if only ``max_runs`` limits them."""
    n_devices: int = 1
    """Devices of this kind that the machine has."""
    uuid: str | None = None
    """The driver's name of a GPU; None for other devices."""

    @property
    def name(self) -> str:
        return self.slot.rpartition("/")[2]

    @property
    def threads_per_run(self) -> int | None:
        """Return each job's share of the cores, as if all devices were full; None for torch's default, every core."""
        n_runs = self.max_runs * self.n_devices
        return max(1, machine_cores() // n_runs) if n_runs > 1 else None

    def has_room(self, demand: Demand, demands_by_slot: Mapping[str, Collection[Demand]]) -> bool:
        """Return whether a job may start beside the running jobs, whose demands are given by their worker's slot."""
        reserved_slots = {
            slot
            for first_slot, running_demands in demands_by_slot.items()
            for running_demand in running_demands
            if running_demand.needs_whole_devices
            for slot in self._spanned_slots(first_slot, running_demand.processes)
        }
        if demand.needs_whole_devices:
            spanned_slots = self._spanned_slots(self.slot, demand.processes)
            are_idle = not any(demands_by_slot.get(slot) for slot in spanned_slots)
            return are_idle and spanned_slots.isdisjoint(reserved_slots)
        neighbors = demands_by_slot.get(self.slot, ())
        if self.slot in reserved_slots or len(neighbors) >= self.max_runs:
            return False
        return not neighbors or self._memory_suffices([demand, *neighbors])

    def _spanned_slots(self, first_slot: str, processes: int) -> set[str]:
        """Return the slots of the devices that the processes of one run use (``ddp_launch.assign_devices``)."""
        machine, colon, index = first_slot.rpartition(":")
        if not colon:
            return {first_slot}
        return {f"{machine}:{(int(index) + rank) % self.n_devices}" for rank in range(processes)}

    def _memory_suffices(self, demands: Collection[Demand]) -> bool:
        """Return whether jobs fit into memory together; a job of unknown size counts as half of it."""
        if self.memory_bytes is None:
            return True
        usable_bytes = USABLE_SHARE * self.memory_bytes
        return sum(demand.peak_bytes or usable_bytes / 2 for demand in demands) <= usable_bytes

    def read_load(self) -> DeviceLoad | None:
        """Return the current load of a GPU; None for other devices, or without the driver's library."""
        if self.uuid is not None:
            with suppress(Exception):  # whatever the driver's library raises, the page only lacks these numbers
                nvml = import_module("pynvml")
                nvml.nvmlInit()
                handle = nvml.nvmlDeviceGetHandleByUUID(self.uuid)
                memory = nvml.nvmlDeviceGetMemoryInfo(handle)
                percent = nvml.nvmlDeviceGetUtilizationRates(handle).gpu
                return DeviceLoad(busy_percent=percent, used_bytes=memory.used, total_bytes=memory.total)
        return None


def choose_device(settings: Settings, requested: str) -> Device:
    """Return the requested device, or the machine's best for ``auto``; raise UnavailableError if there is none."""
    devices = [TorchDevice("cpu")] if requested == "cpu" else list_devices()
    name = devices[0].name if requested == "auto" else requested
    kind = name.partition(":")[0]
    same_kind = [device for device in devices if device.name.partition(":")[0] == kind]
    torch_device = next((device for device in same_kind if name in (device.name, kind)), None)
    if torch_device is None:
        choices = ", ".join(device.name for device in devices)
        raise UnavailableError(f"This machine has no device {name}. Choose among: {choices}.")
    default_max_runs = {"cuda": MAX_RUNS_PER_GPU, "cpu": max(1, machine_cores() // CORES_PER_RUN)}
    return Device(
        slot=slot_name(settings, name),
        max_runs=settings.runs_per_device or default_max_runs.get(kind, 1),
        memory_bytes=None if settings.runs_per_device else torch_device.memory_bytes or machine_memory(),
        n_devices=max(1, len(same_kind)),
        uuid=torch_device.uuid,
    )


def may_start(sessions: Sessions, device: Device, job: Job, snapshot: QueueSnapshot) -> bool:
    """Return whether the device has room for a job beside the jobs that the engine lists as running."""
    slot_by_id = {workflow_id: slot for workflow_id, slot in snapshot.worker_slots.items() if slot is not None}
    slot_by_id.pop(job.workflow_id, None)
    if list(slot_by_id.values()).count(device.slot) >= device.max_runs:
        return False  # without reading demands, because busy workers ask several times a second
    demand_by_id = read_demands(sessions, {job.workflow_id, *slot_by_id})
    demands_by_slot = defaultdict(list)
    for workflow_id, slot in slot_by_id.items():
        demands_by_slot[slot].append(demand_by_id[workflow_id])
    return device.has_room(demand_by_id[job.workflow_id], demands_by_slot)


def read_demands(sessions: Sessions, workflow_ids: Collection[str]) -> dict[str, Demand]:
    """Return each job's demand by workflow id. Encodings need a whole device, because their memory is not measured."""
    job_by_row_id = {job.row_id: job for job in map(Job.parse, workflow_ids)}
    sibling = aliased(Run)
    is_sibling = (sibling.experiment_id == Run.experiment_id) & (sibling.model == Run.model)
    is_sibling &= sibling.status == RunStatus.FINISHED
    peak_bytes = select(func.max(Attempt.peak_bytes)).join(sibling, sibling.id == Attempt.run_id).where(is_sibling)
    query = select(Run.id, Run.config, Run.whole_device, peak_bytes.scalar_subquery()).where(Run.id.in_(job_by_row_id))
    demand_by_id = dict.fromkeys(workflow_ids, Demand(whole_device=True))
    with sessions() as session:
        for row_id, config, whole_device, peak in session.execute(query):
            demand = Demand(getattr(config, "processes", 1), whole_device, peak)
            demand_by_id[job_by_row_id[row_id].workflow_id] = demand
    return demand_by_id
