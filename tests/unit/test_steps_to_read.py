from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from app.results.run_data import steps_to_read

RUNS = st.lists(st.sets(st.integers(0, 60), min_size=1), min_size=1, max_size=6)


@given(RUNS, st.integers(1, 20))
def test_last_step_of_each_stride_is_read_for_every_run(runs, stride):
    counts = Counter(step for run in runs for step in run)
    steps = steps_to_read(counts, map(max, runs), stride)
    due = {max(step for step in run if -(-step // stride) == -(-at // stride)) for run in runs for at in run}
    assert due <= set(steps) <= set(counts)
    assert len(steps) == len(set(steps))


@given(st.sets(st.integers(0, 200), min_size=1), st.integers(1, 9), st.integers(1, 40))
def test_runs_with_equal_steps_read_no_extra_steps(run, runs, stride):
    due = {max(step for step in run if -(-step // stride) == -(-at // stride)) for at in run}
    assert set(steps_to_read(dict.fromkeys(run, runs), [max(run)] * runs, stride)) == due
