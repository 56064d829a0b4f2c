"""Queries that fail: started again after a transient fault, given up when patience ends. Without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.runtime.errors import RunError
from penstock.store.connection import Busy
from tests.runtime.parts import Parts, stream

AWAY = RuntimeError("java.net.ConnectException: Connection refused")


@pytest.fixture
def parts(tmp_path) -> Iterator[Parts]:
    made = Parts(tmp_path, [stream("s")], patience=60.0)
    yield made
    made.close()


def answered(parts: Parts) -> None:
    """The source has answered once."""
    parts.running("s").wait()
    parts.look()
    assert parts.queries["s"].has_answered


def test_a_query_that_failed_with_a_transient_fault_is_started_again(parts):
    answered(parts)
    parts.running("s").fail(AWAY)
    parts.look()
    assert parts.lifecycle.failure is None
    assert parts.lifecycle.retries.faults["the stream 's'"].error is AWAY
    assert len(parts.started["s"]) == 1, "not before the pause is over"
    parts.seconds.now += 1.0
    parts.look()
    assert len(parts.started["s"]) == 2
    parts.running("s").wait()
    parts.look()
    assert parts.lifecycle.retries.faults == {}


def test_a_query_that_fails_for_longer_than_patience_ends_the_run(parts):
    answered(parts)
    while parts.lifecycle.failure is None:
        parts.running("s").fail(AWAY)
        parts.look()
        parts.seconds.now += 31.0
        parts.look()
    assert isinstance(parts.lifecycle.failure, RunError)
    assert "the stream 's' has failed for 60 s, 2 times: java.net.ConnectException" in str(parts.lifecycle.failure)
    assert len(parts.started["s"]) == 3


def test_a_source_that_never_answered_is_not_tried_again(parts):
    parts.running("s").fail(AWAY)
    parts.look()
    assert parts.lifecycle.failure is AWAY


def test_any_other_error_ends_the_run_with_what_the_epoch_said(parts):
    answered(parts)
    cause = ZeroDivisionError("in an epoch")
    parts.queries["s"].cause = cause
    parts.running("s").fail(RuntimeError("what Spark says of it"))
    parts.look()
    assert parts.lifecycle.failure is cause


def test_a_locked_store_is_a_transient_fault_also_for_a_source_that_never_answered(parts):
    parts.queries["s"].cause = Busy("the store is locked")
    parts.running("s").fail(RuntimeError("what Spark says of it"))
    parts.look()
    assert parts.lifecycle.failure is None
    assert "the stream 's'" in parts.lifecycle.retries.faults


def test_a_query_that_is_restarted_may_fail_in_the_epoch_that_it_had_begun(parts):
    parts.queries["s"].is_held = True
    parts.running("s").fail(RuntimeError("its jobs were cancelled"))
    parts.look()
    assert parts.lifecycle.failure is None
