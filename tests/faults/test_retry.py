"""What is tried again, how often, and for how long."""

from __future__ import annotations

import pytest

from penstock.runtime.errors import RunError
from penstock.runtime.queries.retry import Retries, passes
from penstock.store import StoreError
from penstock.store.connection import Busy, Full

AWAY = RuntimeError("org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment")


def because(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "is_so"),
    [
        (AWAY, True),
        (Busy("the store is locked"), True),
        (Full("there is no room"), True),
        (because(RunError("an expression fails, whatever the rows are"), AWAY), True),
        (RuntimeError("Job aborted: Python worker exited unexpectedly (crashed)"), True),
        (StoreError("the store is gone"), False),
        (RunError("org.apache.kafka.common.errors.TimeoutException is what somebody wrote"), False),
        (RuntimeError("[DIVIDE_BY_ZERO] Division by zero"), False),
        (because(StoreError("the store is damaged"), ValueError("no")), False),
    ],
)
def test_which_faults_pass(error, is_so):
    assert passes(error) is is_so


def test_pauses_grow_until_it_gets_on_or_patience_ends(caplog):
    now = [100.0]
    retries = Retries(60.0, (0.5, 4.0), lambda: now[0])
    pauses = []
    for _ in range(6):
        assert retries.failed("the log", AWAY)
        assert retries.waits("the log")
        assert not retries.is_due("the log")
        pauses.append(retries.faults["the log"].due - now[0])
        now[0] = retries.faults["the log"].due
        assert retries.is_due("the log")
        retries.tried("the log")
        assert not retries.waits("the log")
    assert pauses == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    assert retries.faults["the log"].count == 6
    retries.succeeded("the log")
    assert retries.faults == {}
    assert "the log works again, after 15.5 s" in caplog.text
    assert retries.failed("the log", AWAY)
    now[0] += 61
    assert not retries.failed("the log", AWAY)
    assert not retries.failed("another", ZeroDivisionError())
