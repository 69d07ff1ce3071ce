"""What works, what waits, and in which order, over the API."""

from isoscope.remote.connection import Connection, Known, Row, path_of


class Queue(Connection):
    """The workers and the runs that wait for them."""

    def queue(self, *, limit: int = 50, offset: int = 0) -> Row:
        """Return what works where, and what waits in the order in which it will be taken.

        >>> [run["id"] for run in isoscope.queue()["waiting"]]
        """
        answer: Row = self.ask("GET", "/api/queue", params={"limit": limit, "offset": offset})
        return answer

    def pause_all(self) -> int:
        """Put every run that waits or runs aside, and return how many these are."""
        return int(self.ask("POST", "/api/queue/pause")["runs"])

    def resume_all(self) -> int:
        """Have every paused run go on when its turn comes, and return how many these are."""
        return int(self.ask("POST", "/api/queue/resume")["runs"])

    def pause_experiment(self, experiment: Known) -> Row:
        """Put all runs of an experiment that wait or run aside, until they are resumed."""
        return self._of_experiment("POST", experiment, "pause")

    def resume_experiment(self, experiment: Known) -> Row:
        """Have all paused runs of an experiment go on, when their turns come."""
        return self._of_experiment("POST", experiment, "resume")

    def move_experiment(self, experiment: Known, to: str) -> Row:
        """Move the queued runs of an experiment before or behind all others: ``first`` or ``last``."""
        return self._of_experiment("POST", experiment, "move", {"to": to})

    def prioritize_experiment(self, experiment: Known, priority: int) -> Row:
        """Give all runs of an experiment one number: of waiting runs those with lower ones go first."""
        return self._of_experiment("PUT", experiment, "priority", {"priority": priority})

    def pause_run(self, run: Known) -> Row:
        """Put a run that waits or runs aside, until it is resumed from its last checkpoint."""
        return self._of_run("POST", run, "pause")

    def resume_run(self, run: Known) -> Row:
        """Have a paused run go on, when its turn comes."""
        return self._of_run("POST", run, "resume")

    def retry_run(self, run: Known) -> Row:
        """Try a failed or cancelled run again, from its last checkpoint where one is left.

        >>> for run in isoscope.all_runs("status:failed"):
        ...     isoscope.retry_run(run)
        """
        return self._of_run("POST", run, "retry")

    def move_run(self, run: Known, to: str) -> Row:
        """Move a queued run among those that wait: ``first``, ``up``, ``down`` or ``last``."""
        return self._of_run("POST", run, "move", {"to": to})

    def prioritize_run(self, run: Known, priority: int) -> Row:
        """Give a run its number: of waiting runs those with lower ones go first."""
        return self._of_run("PUT", run, "priority", {"priority": priority})

    def _of_experiment(self, method: str, experiment: Known, what: str, body: Row | None = None) -> Row:
        answer: Row = self.ask(method, path_of("experiments", experiment, what), json=body)
        return answer

    def _of_run(self, method: str, run: Known, what: str, body: Row | None = None) -> Row:
        answer: Row = self.ask(method, path_of("runs", run, what), json=body)
        return answer
