"""Which epochs are taken, skipped and refused; and definitions between them. Without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import penstock as ps
from penstock.runtime.errors import RunError
from penstock.runtime.queries.epoch_loop import EpochRefused
from tests.runtime.parts import Parts, in_thread, stream

S = stream("s")
COUNTS = S.group_by("k").agg(n=ps.count())


@pytest.fixture
def parts(tmp_path) -> Iterator[Parts]:
    made = Parts(tmp_path, [S], {"counts": COUNTS})
    yield made
    made.close()


def counts(parts: Parts) -> dict[str, int]:
    return dict(parts.store.query("SELECT k, n FROM counts").rows())


def test_an_epoch_is_committed_with_its_offsets(parts):
    parts.epoch("s", 0, ("a", 1), ("b", 1))
    assert counts(parts) == {"a": 1, "b": 1}
    progress = parts.store.progress("query-of-s")
    assert progress is not None
    assert (progress.epoch, json.loads(progress.offsets)) == (0, {"end": 0})
    assert parts.lifecycle.committed.is_set()


def test_an_epoch_that_the_store_has_is_skipped(parts):
    parts.epoch("s", 0, ("a", 1))
    parts.epoch("s", 0, ("a", 1))
    assert counts(parts) == {"a": 1}


def test_an_epoch_beyond_the_next_one_is_refused(parts):
    parts.epoch("s", 0, ("a", 1))
    with pytest.raises(RunError, match=r"is behind Spark's log .* it has epoch 0, Spark is at 2"):
        parts.epoch("s", 2, ("a", 1))
    assert isinstance(parts.queries["s"].cause, RunError), "the supervisor finds it there"


def test_an_epoch_with_other_offsets_is_refused(parts):
    parts.epoch("s", 0, ("a", 1))
    with pytest.raises(RunError, match="epoch 0 of the stream 's' was committed with other offsets"):
        parts.epoch("s", 0, ("a", 1), offsets='{"end": 9}')


def test_no_epoch_begins_when_the_run_stops_and_those_under_way_are_waited_for(parts):
    inside: list[bool] = []

    def stop(pool: str | None) -> None:
        parts.lifecycle.stopping.set()
        waiting = in_thread(parts.loop.wait_until_idle)
        inside.append(waiting.is_alive())

    parts.epoch("s", 0, ("a", 1), on_job=stop)
    parts.loop.wait_until_idle()
    assert inside == [True]
    assert counts(parts) == {"a": 1}
    with pytest.raises(EpochRefused):
        parts.epoch("s", 1, ("a", 1))
    assert parts.queries["s"].cause is None


def test_a_failed_epoch_moves_no_time(parts):
    def fail(pool: str | None) -> None:
        raise ZeroDivisionError

    parts.epoch("s", 0, ("a", 1))
    tracker = parts.groups.of("s").engine.registry.trackers["s"]
    before = tracker.watermark
    with pytest.raises(ZeroDivisionError):
        parts.epoch("s", 1, ("a", 9), on_job=fail)
    assert tracker.watermark == before
    parts.epoch("s", 1, ("a", 9))
    assert tracker.watermark > before


def test_a_definition_that_lacks_a_column_restarts_the_query(tmp_path):
    narrow = stream("t", keep="none")
    parts = Parts(tmp_path, [narrow], {"counts": narrow.group_by("k").agg(n=ps.count())})
    try:
        parts.epoch("t", 0, ("a", 1))
        assert parts.running("t").columns == ("k", "at")
        first = parts.running("t")
        parts.definitions.add_view("sums", narrow.group_by("k").agg(s=ps.sum("v")))
        assert not first.isActive
        assert parts.running("t").columns == ("k", "v", "at")
        parts.epoch("t", 1, ("a", 2))
        assert parts.store.query("SELECT k, s FROM sums").rows() == [("a", 1)]
        parts.definitions.add_view("more", narrow.group_by("k").agg(m=ps.max("v")))
        assert len(parts.started["t"]) == 2, "nothing was lacking"
    finally:
        parts.close()


def test_a_stream_that_comes_is_read_and_one_that_goes_is_forgotten(parts):
    other = stream("o")
    parts.definitions.add_stream("o", other)
    parts.definitions.add_view("others", other.group_by("k").agg(n=ps.count()))
    parts.epoch("o", 0, ("x", 1))
    assert parts.store.query("SELECT k, n FROM others").rows() == [("x", 1)]
    parts.definitions.drop_view("others")
    query = parts.running("o")
    parts.definitions.drop_stream("o")
    assert not query.isActive
    assert "o" not in parts.queries
    assert [group.name for group in parts.groups.all] == ["s"]
    assert "o.events" not in parts.store.counters()
