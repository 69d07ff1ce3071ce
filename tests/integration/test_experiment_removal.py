import json
from types import SimpleNamespace

import pytest
from sqlalchemy import func, select, text, update

from app.db import removal
from app.db.models import Experiment, Run, RunStatus, Step
from app.db.session import INCLUDE_HIDDEN
from app.training.experiments import delete_experiment
from isoscope.core.errors import ConflictError
from tests import factories
from tests.archives import add_experiment
from workers.imports.tables import refuse_duplicate


class StoppedHere(BaseException):
    """Stands for a killed process."""


@pytest.fixture
def interrupt_removal(context, monkeypatch):
    """Interrupt a removal after a number of small transactions."""
    monkeypatch.setattr(removal, "STEPS_AT_ONCE", 2)
    monkeypatch.setattr(removal, "RUNS_AT_ONCE", 5)

    def interrupt_removal(delete, transactions):
        remaining = transactions

        def pause(_):
            nonlocal remaining
            remaining -= 1
            if remaining == 0:
                raise StoppedHere

        with monkeypatch.context() as patched:
            patched.setattr(removal, "let_others_write", pause)
            with pytest.raises(StoppedHere):
                delete()

    return interrupt_removal


def count(context, table):
    with context.sessions() as session:
        return session.scalar(select(func.count()).select_from(table), execution_options={INCLUDE_HIDDEN: True})


@pytest.mark.parametrize("transactions", [1, 21])
@pytest.mark.both_databases
def test_interrupted_removal_is_hidden_and_resumed(client, context, interrupt_removal, transactions):
    experiment_id = add_experiment(context)
    run_id = client.get(f"/api/experiments/{experiment_id}").json()["runs"][0]["id"]
    with context.sessions.begin() as session:
        session.execute(update(Run).values(status=RunStatus.FINISHED))
    steps, runs = count(context, Step), count(context, Run)
    interrupt_removal(lambda: delete_experiment(context, experiment_id), transactions)
    assert 0 < count(context, Step) + count(context, Run) < steps + runs
    for path in (f"experiments/{experiment_id}", f"runs/{run_id}"):
        assert (client.get(f"/api/{path}").status_code, client.get(f"/{path}").status_code) == (404, 404)
    assert client.get("/api/experiments").json() == client.get("/api/runs").json() == []
    assert client.delete(f"/api/experiments/{experiment_id}").status_code == 404
    archive = SimpleNamespace(experiment=SimpleNamespace(id=experiment_id), content="c" * 64)
    with context.sessions() as session, pytest.raises(ConflictError, match="is being deleted"):
        refuse_duplicate(session, archive, "i" * 32)
    assert removal.resume_removals(context.sessions) == 1
    assert [count(context, table) for table in (Experiment, Run, Step)] == [0, 0, 0]
    assert removal.resume_removals(context.sessions) == 0


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_experiment_of_later_version_is_listed_and_deleted(client, context):
    broken, intact = (factories.add_experiment(context, factories.run_row(), name=name) for name in ("broken", "whole"))
    written = text("update experiments set config = :config where id = :id")
    with context.sessions.begin() as session:
        config = session.get_one(Experiment, broken).config.model_dump(mode="json") | {"schedule": "of a later version"}
        session.execute(written, {"config": json.dumps(config), "id": broken})
    page = client.get("/experiments")
    assert page.status_code == 200
    assert "broken" in page.text
    assert client.get("/").status_code == 200
    assert {experiment["name"] for experiment in client.get("/api/experiments").json()} == {"broken", "whole"}
    assert client.delete(f"/api/experiments/{broken}").status_code == 204
    assert [experiment["id"] for experiment in client.get("/api/experiments").json()] == [intact]
