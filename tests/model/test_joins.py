"""Joins of streams on the reference: the same pairs in any cut, and exactly those that a naive join of what was on time
gives."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import penstock as ps
from penstock.app import App
from penstock.errors import DefinitionError
from penstock.model.time import SECOND, instant
from penstock.testing import TestStream, join, run

LEFT, RIGHT = "ad int, user string, at timestamp", "ad_id bigint, place string, seen timestamp"


def app_with(**said):
    app = App("ads")
    made = [
        app.stream(name, ps.files(name), schema=schema, event_time=time, watermark=ps.bounded("20 seconds", idle=None))
        for name, schema, time in (("clicks", LEFT, "at"), ("shown", RIGHT, "seen"))
    ]
    return made, app.join("matched", *made, on="ad = ad_id", **{"within": ("-30 seconds", "5 seconds"), **said})


def at(second: int) -> str:
    return f"12:{second // 60:02}:{second % 60:02}"


def made_up(chance: random.Random, count: int) -> list[tuple[str, tuple]]:
    """Events of both streams, mostly in order."""
    found = []
    for number in range(count):
        second = max(0, number + chance.randint(-40, 5))
        key = chance.choice([1, 2, 3, None])
        found.append((chance.choice(["clicks", "shown"]), (key, f"e{number}", at(second))))
    return found


def cut(streams, events, size: int) -> TestStream:
    script = TestStream(*streams)
    for first in range(0, len(events), size):
        for name in ("clicks", "shown"):
            rows = [row for stream, row in events[first : first + size] if stream == name]
            script = script.add(*rows, to=name) if rows else script
    return script.watermark("13:00:00")


def naive(events, how: str, meets) -> Counter:
    """All pairs of events, and those that have none where the join keeps them."""
    left = [row for name, row in events if name == "clicks"]
    right = [row for name, row in events if name == "shown"]
    pairs = [(a, b) for a in left for b in right if a[0] is not None and a[0] == b[0] and meets(a, b)]
    found = Counter((a[1], b[1]) for a, b in pairs)
    if how in ("left", "full"):
        found.update((a[1], None) for a in left if all(one is not a for one, _ in pairs))
    if how in ("right", "full"):
        found.update((None, b[1]) for b in right if all(one is not b for _, one in pairs))
    return found


def seconds(row) -> int:
    return (instant(f"2000-01-01T{row[2]}Z") - instant("2000-01-01T12:00:00Z")) // SECOND


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
@pytest.mark.parametrize("size", [1, 7, 60])
def test_what_was_on_time_is_joined_whole_in_any_cut(how, size):
    for seed in range(5):
        events = made_up(random.Random(seed), 60)
        streams, matched = app_with(how=how)
        found = join(matched, cut(streams, events, size))
        late = {one.event.row["user" if one.event.stream == "clicks" else "place"] for one in found.late}
        in_time = [(name, row) for name, row in events if row[1] not in late]
        want = naive(in_time, how, lambda a, b: -30 <= seconds(b) - seconds(a) <= 5)
        assert Counter((row[1], row[4]) for row in found.rows) == want
        assert size > 1 or late, "there were late events"


def test_in_a_window_events_meet_that_fall_into_the_same():
    events = made_up(random.Random(1), 60)
    streams, matched = app_with(how="full", within=None, window=ps.fixed("10 seconds"))
    found = join(matched, cut(streams, events, 60))
    want = naive(events, "full", lambda a, b: seconds(a) // 10 == seconds(b) // 10)
    assert Counter((row[1], row[4]) for row in found.rows) == want


@pytest.mark.parametrize(
    ("said", "last"),
    [
        ({}, "12:00:05.002"),  # five seconds after it, and what Spark counts besides
        ({"within": None, "window": ps.fixed("10 seconds")}, "12:00:10"),
    ],
)
def test_what_finds_none_is_given_out_once_none_can_come(said, last):
    streams, matched = app_with(how="left", **said)
    script = TestStream(*streams).add((1, "alone", at(0)), to="clicks")
    before = instant(f"2000-01-01T{last}Z") - 1_000
    assert join(matched, script.watermark(before)).rows == []
    assert [row[1] for row in join(matched, script.watermark(before).watermark(last)).rows] == ["alone"]


def test_a_view_over_a_join_is_tested_with_the_streams_alone():
    streams, matched = app_with(how="left", event_time="at", watermark=ps.bounded("1 minute"))
    lost = matched.where("place IS NULL").group_by("user").window(ps.fixed("1 minute")).agg(n=ps.count())
    script = TestStream(*streams).add((1, "p", at(0)), to="shown").add((1, "a", at(1)), (2, "b", at(2)), to="clicks")
    assert run(lost, script).table == []
    for engine in ("reference", "kernel"):
        assert [row["user"] for row in run(lost, script.watermark(at(60)), engine).table] == ["b"]
    with pytest.raises(DefinitionError, match="lacks the stream «matched»"):
        run(lost, TestStream(streams[0]))


def test_definitions_that_cannot_be_joined_are_refused():
    with pytest.raises(DefinitionError, match="how far apart"):
        app_with(within=None)
    with pytest.raises(DefinitionError, match="from the earlier to the later"):
        app_with(within=("5 seconds", "1 second"))
    with pytest.raises(DefinitionError, match="way to join streams"):
        app_with(how="outer")
    with pytest.raises(DefinitionError, match="not in whole milliseconds"):
        app_with(within=None, window=ps.fixed("1500 microseconds"))
    with pytest.raises(DefinitionError, match="do not meet"):
        app_with(within=None, window=ps.session("1 minute"))
    app = App("ads")
    untimed = app.stream("untimed", ps.files("untimed"), schema=LEFT)
    with pytest.raises(DefinitionError, match="no event time or no watermark"):
        app.join("both", untimed, untimed, on="ad", within=("0 seconds", "0 seconds"))
