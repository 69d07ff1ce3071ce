from app.db.job_kinds import Job


class Processes:
    """Stand in for ``JobProcesses``; what real ones do is tested in tests/faults.

    Each ends with the next exit code, or cannot start for the next error; after these with ``then``, which by default
    no test may reach.
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
