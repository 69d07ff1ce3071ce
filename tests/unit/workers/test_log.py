import logging
import os
import sys
import threading
import time

import pytest
import torch
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from app.core.process import LOG_NAME
from app.db.models import FailureCause, Run
from app.db.session import create_sessions
from isoscope.core.errors import InvalidError, NotFoundError
from tests.waiting import wait_for
from workers.failure import Failure, NotFiniteError, OtherProcessError, classify_error, log_and_describe, record_error
from workers.training.log import MAX_BYTES, MAX_EARLIER_BYTES, MAX_EARLIER_LINES, MAX_LINES, Log
from workers.training.run_spec import OutOfMemoryError


def test_log_keeps_records_and_output_of_all_attempts(tmp_path):
    log = Log(tmp_path)
    with log.capture_stderr():
        pass
    assert log.tail() is None
    with log.capture_stderr():
        logging.getLogger("workers").warning("memory ran out")
        os.write(2, b"a word of C\n")
    logging.getLogger("workers").warning("not of this run")
    with log.capture_stderr():
        os.write(2, b"the second attempt\n")
    first, second, third = log.tail().splitlines()
    assert first.endswith("WARNING workers: memory ran out")
    assert (second, third) == ("a word of C", "the second attempt")


def test_progress_is_logged_to_file_only(tmp_path, capfd):
    handler = logging.StreamHandler(sys.stderr)
    logging.getLogger().addHandler(handler)
    try:
        with Log(tmp_path).capture_stderr():
            logging.getLogger("workers").warning("shown")
            os.write(2, b"inside\n")
            logging.getLogger("workers.training").info("step 3")
        assert handler.stream is sys.stderr
        logging.getLogger("workers.training").info("not kept")
    finally:
        logging.getLogger().removeHandler(handler)
    os.write(2, b"outside\n")
    assert capfd.readouterr().err == "shown\noutside\n"
    logged, inside, step = Log(tmp_path).tail().splitlines()
    assert (logged.endswith("WARNING workers: shown"), inside) == (True, "inside")
    assert step.endswith("INFO workers.training: step 3")


def test_tail_has_last_complete_lines(tmp_path):
    (tmp_path / LOG_NAME).write_text("\n".join(f"line {number}" for number in range(1000)))
    lines = Log(tmp_path).tail().splitlines()
    assert (len(lines), lines[0], lines[-1]) == (MAX_LINES, "line 800", "line 999")
    (tmp_path / LOG_NAME).write_text("\n".join(str(number) * 1000 for number in range(10, 60)))
    tail = Log(tmp_path).tail()
    assert len(tail) <= MAX_BYTES
    assert tail.splitlines() == [str(number) * 1000 for number in range(52, 60)]
    (tmp_path / LOG_NAME).write_bytes(b"a\0b \xff")
    assert Log(tmp_path).tail() == "a\ufffdb \ufffd"


def test_tail_is_sent_on_change_and_after_outage(tmp_path):
    log, tails = Log(tmp_path), []

    def send(tail):
        tails.append(tail)
        if len(tails) == 1:
            raise OperationalError("update", {}, ConnectionError("away"))

    with log.capture_stderr(), log.send_tail_regularly(send, interval=0.01):
        os.write(2, b"one\n")
        wait_for(lambda: tails[-1:] == ["one"] and len(tails) >= 2)
        os.write(2, b"two\n")
        wait_for(lambda: tails[-1:] == ["one\ntwo"])
    assert 2 <= len(tails) <= 4


def test_tail_sending_ends_with_failed_job(tmp_path):
    log, tails = Log(tmp_path), []

    def fail():
        with log.capture_stderr(), log.send_tail_regularly(tails.append, interval=0.01):
            os.write(2, b"one\n")
            wait_for(lambda: tails)
            raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        fail()
    assert "log" not in [thread.name for thread in threading.enumerate()]
    (tmp_path / LOG_NAME).write_bytes(b"afterwards\n")
    time.sleep(0.1)
    assert tails == ["one"]


def test_tail_keeps_last_lines_of_earlier_attempts(tmp_path):
    log = Log(tmp_path)
    for attempt in (1, 2, 3):
        log.begin(attempt, "here/cpu", None)
        with (tmp_path / LOG_NAME).open("a") as file:
            file.writelines(f"line {number} of attempt {attempt}\n" for number in range(500))
    lines = log.tail().splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("=== Attempt ")]
    assert [lines[head][: len("=== Attempt 1 on here/cpu")] for head in heads] == [
        f"=== Attempt {attempt} on here/cpu" for attempt in (1, 2, 3)
    ]
    assert heads == [0, MAX_EARLIER_LINES + 1, 2 * (MAX_EARLIER_LINES + 1)]
    assert lines[heads[1] - 1] == "line 499 of attempt 1"
    assert len(lines) == 2 * (MAX_EARLIER_LINES + 1) + 1 + MAX_LINES
    for attempt in range(1, 500):
        log.begin(attempt, "here/cpu", None)
        with (tmp_path / LOG_NAME).open("a") as file:
            file.writelines(f"{'x' * 100} {number}\n" for number in range(30))
    tail = log.tail()
    assert len(tail) <= MAX_BYTES + MAX_EARLIER_BYTES
    assert tail.splitlines()[-1].endswith(" 29")
    assert "=== Attempt 499 on" in tail


def test_attempt_on_other_worker_continues_stored_log(tmp_path):
    log = Log(tmp_path)
    log.begin(2, "there/cpu", "=== Attempt 1 on here/cpu\nstep 5")
    log.begin(3, "there/cpu", "not a second time")
    lines = log.tail().splitlines()
    assert lines[:2] == ["=== Attempt 1 on here/cpu", "step 5"]
    assert [line.split()[2] for line in lines if line.startswith("===")] == ["1", "2", "3"]
    assert "not a second time" not in log.tail()


def test_failure_text_is_storable_and_keeps_its_cause():
    assert log_and_describe(InvalidError("got a\0b and \ud800, ζ")) == "got a\ufffdb and ?, ζ"
    assert log_and_describe(ImportError("cannot import name 'x' from 'transformers'")) == (
        "The worker has a library that is missing or too old: cannot import name 'x' from 'transformers'. Install what "
        "Isoscope needs there."
    )
    failure = Failure("The loss is not a number.", FailureCause.NOT_A_NUMBER, "learning_rate")
    assert classify_error(OtherProcessError(failure)) == failure


def test_database_outage_is_not_recorded_as_failure(tmp_path):
    outage = OperationalError("select 1", {}, ConnectionError("gone"))
    with pytest.raises(OperationalError, match="gone"):
        record_error(outage, create_sessions(f"sqlite:///{tmp_path}/none.sqlite"), update(Run))


@pytest.mark.parametrize(
    ("error", "cause", "field"),
    [
        (OutOfMemoryError("much"), FailureCause.MEMORY, "batch_size"),
        (torch.OutOfMemoryError("much"), FailureCause.MEMORY, "batch_size"),
        (RuntimeError("[enforce fail] can't allocate memory: 8 bytes"), FailureCause.MEMORY, "batch_size"),
        (NotFoundError("There is no model.", "model"), FailureCause.MODEL, "model"),
        (InvalidError("Row 3 has no text.", "text_columns"), FailureCause.COLUMN, "text_columns"),
        (NotFiniteError("The loss is not a number.", "learning_rate"), FailureCause.NOT_A_NUMBER, "learning_rate"),
        (InvalidError("Expected bf16.", "precision"), FailureCause.SETTING, "precision"),
        (InvalidError("Expected rows, got none."), FailureCause.UNSPECIFIED, None),
        (ArithmeticError("two"), FailureCause.UNSPECIFIED, None),
    ],
)
def test_failure_cause_follows_error(error, cause, field):
    assert classify_error(error)[1:] == (cause, field)
