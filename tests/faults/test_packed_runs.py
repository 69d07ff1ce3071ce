from contextlib import suppress

import psutil
import pytest

from app.db.work import SHARED_MEMORY_NOTE
from tests.faults.test_kill import EXPERIMENT
from tests.texts import FILM_FILES

STEPS = 300


def kill_one_of_two(server):
    """Kill one of two processes once it trains; return whether one was killed. The run of the other may have ended."""
    processes = server.run_processes()
    for run_id, process in processes.items() if len(processes) == 2 else ():
        with suppress(psutil.NoSuchProcess):
            process.suspend()  # or its run might end before the kill
            run = server.get(f"/api/runs/{run_id}")
            if run["status"] == "running" and run["attempts"][-1]["first_step"] is not None:
                process.kill()
                return True
            process.resume()
    return False


@pytest.mark.long
def test_faults_of_packed_runs_leave_their_neighbors_alone(serving, models_dir):
    """Cancel, stop and kill runs that share a device, and a measurement: each ends once, with undisturbed numbers."""
    server = serving(
        ISOSCOPE_RUNS_PER_DEVICE="2", ISOSCOPE_CHECKPOINT_SECONDS="0.5", ISOSCOPE_MODELS_DIR=str(models_dir)
    )
    dataset = server.post("/api/datasets", files=FILM_FILES)

    def launch(*lambdas):
        changes = {"dataset_id": dataset["id"], "lambdas": lambdas, "max_steps": STEPS}
        return f"/api/experiments/{server.post('/api/experiments', json=EXPERIMENT | changes)['id']}"

    def runs(experiment):
        return {run["lam"]: run for run in server.get(experiment)["runs"]}

    def training_lambdas():
        return {lam for lam, run in runs(disturbed).items() if run["phase"] == "training" and run["phase_done"]}

    def job_processes():
        return server.children("multiprocessing.forkserver")

    def have_ended(experiment):
        return lambda: all(run["status"] in ("finished", "cancelled") for run in runs(experiment).values())

    undisturbed = launch(0.5, 1, 2)
    server.wait_for(have_ended(undisturbed), "the undisturbed runs")
    rows = "\n".join(",".join(str(i * k % 997) for k in range(1, 100)) for i in range(1, 20_000))
    created = server.post("/api/embeddings", files={"file": ("cloud.csv", rows)})
    embedding = f"/api/embeddings/{created['id']}"
    server.wait_for(lambda: server.get(embedding)["status"] == "draft", "the rows to be read")
    server.wait_for(lambda: len(job_processes()) == 1, "the end of all jobs, whose parent remains")
    server.post(f"{embedding}/commit")
    server.wait_for(lambda: len(job_processes()) == 2, "its process")
    measurement = job_processes()[-1]
    measurement.suspend()  # or it might end before two runs train
    disturbed = launch(-1, 0.5, 1, 2)
    server.wait_for(lambda: training_lambdas() >= {0, -1}, "two runs to train side by side")
    measurement.kill()
    crash = f"measure-{created['id']} ended with signal SIGKILL"
    server.wait_for(lambda: crash in server.log(), "the crash of the measurement")
    server.post(f"/api/runs/{runs(disturbed)[-1]['id']}/cancel")
    server.wait_for(lambda: training_lambdas() - {0, -1}, "a run in the place of the cancelled one")
    worker = server.child("-m workers")
    worker.kill()
    worker.wait(60)  # or its processes are taken for those of the next one
    server.wait_for(lambda: kill_one_of_two(server), "two runs to train again, and the kill of one")
    server.wait_for(have_ended(disturbed), "the end of the sweep")
    server.wait_for(lambda: server.get(embedding)["status"] == "ready", "the repeated measurement")

    ended, expected = runs(disturbed), runs(undisturbed)
    assert ended.pop(-1)["status"] == "cancelled"
    notes = []
    for lam, run in ended.items():
        for name in ("status", "performance", "isoscore_star"):
            assert run[name] == expected[lam][name]
        details = server.get(f"/api/runs/{run['id']}")
        steps = [step["step"] for step in details["steps"]]
        assert steps == sorted({*steps, STEPS})
        notes += details["notes"]
    assert notes == [SHARED_MEMORY_NOTE]
