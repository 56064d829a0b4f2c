"""A generator's clock: events by the second, a long pause in bounded epochs, a replay the same."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

import penstock as ps
from penstock.app import App
from penstock.sources.ticks import LONGEST, SECOND, TicksReader

pytestmark = pytest.mark.xdist_group("spark")


def read(reader: TicksReader, start: dict[str, int], end: dict[str, int]) -> pa.Table:
    return pa.Table.from_batches([batch for part in reader.partitions(start, end) for batch in reader.read(part)])


def test_a_long_pause_comes_in_bounded_epochs_and_nothing_is_left_out():
    reader = TicksReader(rate=3, begun=0)
    start = offset = reader.initialOffset()
    now, numbers, ticks = 65 * SECOND + 1, [], []
    while (end := reader.due(offset, now)) != offset:
        assert end["number"] - offset["number"] <= 3 * LONGEST
        rows = read(reader, offset, end)
        numbers += rows["__number"].to_pylist()
        ticks += rows["__tick"].cast(pa.int64()).to_pylist()
        offset = end
    assert numbers == list(range(3 * 65))
    assert ticks == sorted(ticks)
    assert start["at"] <= ticks[0]
    assert ticks[-1] <= 65 * SECOND


def test_a_replay_gives_the_same_events_though_the_first_offset_is_another():
    before, after = TicksReader(rate=100, begun=5 * SECOND), TicksReader(rate=100, begun=9 * SECOND)
    end = before.due(before.initialOffset(), 8 * SECOND)
    assert read(before, before.initialOffset(), end) == read(after, after.initialOffset(), end)


def test_a_clock_that_goes_back_gives_nothing():
    reader = TicksReader(rate=100, begun=5 * SECOND)
    assert reader.due(reader.initialOffset(), 0) == reader.initialOffset()


def test_a_generator_runs_by_the_clock_and_goes_on_after_a_restart(tmp_path, spark):
    def again() -> App:
        app = App("made_up")
        stream = app.stream(
            "events",
            ps.generator(lambda numbers, times, chance: {"n": numbers, "at": times}, rate=50),
            schema="n bigint, at timestamp",
            event_time="at",
            watermark=ps.bounded("1 second"),
        )
        app.view("total", stream.group_by().agg(events=ps.count(), last=ps.max("n")))
        return app

    seen = 0
    for _ in range(2):
        run = again().start(tmp_path / "state", spark=spark, tick=3600.0)
        try:
            end = time.monotonic() + 60
            while (run.store.counters().get("events.events", 0)) < seen + 100 and time.monotonic() < end:
                run.wait(0.05)
        finally:
            run.stop()
        from penstock.store import Reader

        events, last = Reader(tmp_path / "state").query("SELECT events, last FROM total").row(0)
        assert events == last + 1 > seen, "each number once"
        seen = events
