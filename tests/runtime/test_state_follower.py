"""A standby follows the large state of the app that runs: it maps the segments that each commit lists."""

from __future__ import annotations

from pathlib import Path

import penstock as ps
from penstock.process_state import process
from penstock.runtime.state_follower import StateFollower
from penstock.state.mapping import SegmentCache
from penstock.testing import TestStream
from tests.store.engine import NAME, StoreEngine

STREAM = ps.stream("s", schema="k string, v int, at timestamp", event_time="at", watermark=ps.bounded("1 second"))


def test_a_standby_has_the_segments_of_each_commit_mapped_and_takes_them_over(tmp_path):
    process.reset()
    view = STREAM.group_by("k").agg(n=ps.count())
    running = StoreEngine(view, tmp_path, shards=lambda: 2)
    follower, mapped = StateFollower(tmp_path), process.of(SegmentCache)
    script = TestStream(STREAM).add({"k": "a", "v": 1, "at": 0}).add({"k": "b", "v": 1, "at": 1})
    counts = []
    for commit in script.commits():
        running.commit(commit)
        segments = follower.look()
        counts.append(len(segments))
        assert set(segments) == set(running.store.sharded(NAME).segments)
        assert len(mapped) == len(segments)
    assert 0 < counts[0] < counts[-1]
    running.store.close()

    looks = iter([False, True])
    follower.follow(lambda: next(looks))
    assert not list(looks)
    taken = StoreEngine(view, tmp_path, shards=lambda: 2)
    assert taken.store.state(NAME).kind("rows").all().height == 2
    assert len(mapped) == counts[-1]  # all of it was there
    taken.store.close()


def test_what_cannot_be_read_yet_is_left_to_the_next_look(tmp_path):
    follower = StateFollower(tmp_path / "missing")
    assert follower.look() == []
    running = StoreEngine(STREAM.group_by("k").agg(n=ps.count()), tmp_path / "missing", shards=lambda: 2)
    for commit in TestStream(STREAM).add({"k": "a", "v": 1, "at": 0}).commits():
        running.commit(commit)
    segments = follower.look()
    assert segments
    path = Path(running.store.segments_at) / segments[0].path
    data = path.read_bytes()
    path.unlink()
    process.reset()
    assert follower.look() == []
    path.write_bytes(data)
    assert follower.look() == segments
    running.store.close()
