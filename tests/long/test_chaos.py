import os
import random
import statistics
import time
from collections import Counter

from sqlalchemy import text

from app.db.models import RunStatus
from tests.machines import launch, runs_of
from tests.waiting import wait_for

# Seconds of kills; seeds of the sweep, with two runs each; the seed of the kills.
SECONDS = float(os.environ.get("ISOSCOPE_CHAOS_SECONDS", "180"))
SEEDS = int(os.environ.get("ISOSCOPE_CHAOS_SEEDS", "20"))
SEED = int(os.environ.get("ISOSCOPE_CHAOS_SEED", "0"))
STEPS = 60
FIRST_KILL_AFTER = 20

# Log every change of a run's status, to count how often each run became final.
WATCH = """
create table changes (run_id text, status text, worker text, at timestamptz default clock_timestamp());
create function watch() returns trigger language plpgsql as $$ begin
  if new.status <> old.status or new.worker is distinct from old.worker then
    insert into changes (run_id, status, worker) values (new.id, new.status, new.worker);
  end if;
  return new;
end $$;
create trigger watch after update on runs for each row execute function watch();
"""

# Seconds between the starts of a run on two machines.
MOVES = """
select extract(epoch from gap)::float from (
  select at - lag(at) over by_run as gap, worker <> lag(worker) over by_run as moved
  from changes where worker is not null window by_run as (partition by run_id order by at)
) as pairs where moved
"""


def test_every_run_finishes_once_while_machines_die(context, machine, figures):
    alive = [machine(name) for name in ("alpha", "beta", "gamma")]
    with context.sessions.begin() as session:
        session.execute(text(WATCH))
    draw = random.Random(SEED)
    launch(context, STEPS, lambdas=[0.0, 1.0], seeds=list(range(SEEDS)))
    began = time.monotonic()
    time.sleep(FIRST_KILL_AFTER)
    kills = 0
    while time.monotonic() - began < SECONDS and not all(run.status.final for run in runs_of(context)):
        victim = draw.choice(alive)
        victim.lose()
        kills += 1
        if kills == 2:
            alive.remove(victim)  # its machine never comes back
        else:
            victim.start()
        time.sleep(draw.uniform(4, 12))
    wait_for(lambda: all(run.status.final for run in runs_of(context)), 900)

    runs = runs_of(context)
    figures += report(context, kills, time.monotonic() - began, len(runs))
    assert Counter((run.status, run.error) for run in runs) == {(RunStatus.FINISHED, None): 2 * SEEDS}
    assert kills >= 3
    for run in runs:
        assert [step.step for step in run.steps] == list(range(STEPS + 1))
        assert run.performance is not None
    with context.sessions() as session:
        finals = session.execute(text("select run_id, count(*) from changes where status = 'finished' group by run_id"))
        assert set(finals) == {(run.id, 1) for run in runs}
    wait_for(lambda: context.queue.list_active() == set())


def report(context, kills, seconds, runs):
    with context.sessions() as session:
        moves = session.scalars(text(MOVES)).all()
    yield f"chaos, seed {SEED}: {runs} runs, {kills} kill -9 of a machine, one for good: all final in {seconds:.0f} s"
    if moves:
        median = statistics.median(moves)
        yield f"  {len(moves)} resumed on another machine {median:.0f} s, at most {max(moves):.0f} s, after their start"
