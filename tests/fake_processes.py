from app.db.job_kinds import Job


class Processes:
    """Stand in for ``JobProcesses``; tests/faults tests real processes.

    Each process ends with the next exit code, or raises the next error at its start. Afterwards they end with ``then``;
    None fails the test.
    """

    def __init__(self, *ends: int | Exception, then: int | None = None) -> None:
        self._ends = list(ends)
        self._then = then
        self.started: list[Job] = []

    async def run(self, job: Job) -> int:
        self.started.append(job)
        if self._then is not None and not self._ends:
            return self._then
        end = self._ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end

    def kill_all(self) -> None:
        pass
