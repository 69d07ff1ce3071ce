"""Dry runs over the API."""


def ask(client, sweep):
    answer = client.post("/api/dry-runs", json=sweep)
    assert answer.status_code == 202
    return answer.json()
