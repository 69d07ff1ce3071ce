RUN = {
    "experiment": "mine", "dataset": "reviews", "model": "my-bert", "task": "classification", "metric": "accuracy",
    "regularizer": "istar", "lam": -1.0, "zeta": 0.2, "seed": 3,
}  # fmt: skip


def log(client, run, *steps):
    return client.post(f"/api/runs/{run['id']}/steps", json={"steps": list(steps)})
