"""Tasks that evaluate embeddings over the API."""

import time
from pathlib import Path
from typing import Any

from isoscope.client.connection import Connection, Progress, Reference, Row, id_of, path_of
from isoscope.client.data import BUSY_STATUSES, POLL_SECONDS
from isoscope.core.errors import InvalidError


class Tasks(Connection):
    """Tasks that choose post-processing, dimensions and storage."""

    def judge(
        self,
        embedding: Reference,
        kind: str,
        file: str | Path | None = None,
        *,
        queries: Reference | None = None,
        progress: Progress | None = None,
        **settings: Any,
    ) -> Row:
        """Evaluate variants of an embedding's vectors on ground truth of a ``kind``, and return the task.

        ``"queries"`` takes a file of relevant documents and the embedding of the queries, ``"pairs"`` a file of pairs
        with scores, ``"labels"`` a column, ``"compression"`` nothing. Settings are those of the form: ``similarity``,
        ``metric``, ``labels``, ``groups``, ``ids``, ``query_ids``, ``match``, ``seed``, ``tolerance``, ``full``.
        With ``launch=False`` the task stays a draft. For encoded BEIR data sets, ``split`` names the qrels.

        >>> task = isoscope.judge(corpus, "queries", "qrels.tsv", queries=queries)
        >>> print(isoscope.wait_for_task(task)["results"]["conclusion"])
        """
        form = {"kind": kind, "queries_id": None if queries is None else id_of(queries), **settings}
        fields = {
            name: (str(value).lower() if isinstance(value, bool) else str(value))
            for name, value in form.items()
            if value is not None
        }
        if file is None:
            return self.post("embeddings", embedding, "tasks", data=fields)
        return self.send_files(path_of("embeddings", embedding, "tasks"), [("file", file)], dict(fields), progress)

    def tasks(self, embedding: Reference, *, limit: int = 100, offset: int = 0) -> list[Row]:
        """Return the tasks of an embedding, newest first."""
        return self.get_list("embeddings", embedding, "tasks", limit=limit, offset=offset)

    def task(self, task: Reference) -> Row:
        """Return one task, with results once its ``status`` is ``finished``."""
        return self.get("tasks", task)

    def wait_for_task(self, task: Reference) -> Row:
        """Wait until a task has ended and return it; raise InvalidError if it failed."""
        while (row := self.task(task))["status"] in BUSY_STATUSES:
            time.sleep(POLL_SECONDS)
        if row["status"] == "failed":
            raise InvalidError(f"The task failed: {row['error']}")
        return row

    def launch_task(self, task: Reference, match: float | None = None) -> Row:
        """Launch a draft, or a task that failed or was cancelled.

        A finished task of pairs is judged again with ``match`` as the minimum score of a match.
        """
        return self.post("tasks", task, "launch", params={} if match is None else {"match": match})

    def cutoff(self, task: Reference, miss_rate: float | None = None, false_match_rate: float | None = None) -> Row:
        """Return the cutoff of a finished task that promises a rate of .01, .05 or .1, by default a miss rate of .05.

        Its ``cutoff`` is None if there are too few labels for the promise, which ``sentence`` states. ``code`` applies
        it in NumPy, with the map of ``download_task_map(task, "map.safetensors", "cutoff")`` if it needs one.
        """
        calibration = (self.task(task)["results"] or {}).get("calibration")
        if calibration is None:
            raise InvalidError("This task has no cutoffs. Its `notes` may say why.")
        if miss_rate is None:
            miss_rate = 0.05
        kind, rate = ("miss", miss_rate) if false_match_rate is None else ("false_match", false_match_rate)
        for cutoff in calibration["spaces"][-1]["cutoffs"]:
            if cutoff["kind"] == kind and cutoff["promise"] == rate:
                return dict(cutoff)
        raise InvalidError(f"There is no cutoff for a rate of {rate:g}. Choose .01, .05 or .1.")

    def judge_others(self, task: Reference, *embeddings: Reference) -> Row:
        """Evaluate other embeddings of the same rows, by default every other layer; return the ``task_family``."""
        members = [{"embedding_id": id_of(embedding)} for embedding in embeddings]
        return self.post("tasks", task, "others", json={"others": members or None})

    def possible_tasks(self, embedding: Reference) -> list[Row]:
        """Return tasks of other embeddings of the same rows, for ``judge_others(task["task_id"], embedding)``."""
        return self.get_list("embeddings", embedding, "tasks", "possible")

    def task_family(self, task: Reference) -> Row:
        """Return the embeddings that a task evaluates as ``members``, and the rank ``relation`` over them."""
        return self.get("tasks", task, "family")

    def cancel_task(self, task: Reference) -> Row:
        return self.post("tasks", task, "cancel")

    def delete_task(self, task: Reference) -> None:
        self.delete("tasks", task)

    def download_task_map(self, task: Reference, target: str | Path, which: str = "chosen") -> Path:
        """Write the map of the ``chosen`` or ``smallest`` variant, or of the ``cutoff``, as safetensors."""
        return self.download(path_of("tasks", task, "map.safetensors"), target, params={"which": which})

    def keep_task_map(self, task: Reference, which: str = "chosen", name: str | None = None, of: str = "corpus") -> Row:
        """Create an embedding of the task's ``corpus`` or ``queries`` by the map of the chosen or smallest variant."""
        return self.post("tasks", task, "embedding", json={"which": which, "name": name, "of": of})

    def figure_of_task(self, task: Reference, slug: str) -> Row:
        """Return a figure of a task: ``isotropy`` or ``bytes``, or ``embeddings`` for several."""
        return self.get("tasks", task, "figures", slug)
