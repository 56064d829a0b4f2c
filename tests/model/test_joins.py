"""Joins of streams on the reference: the same pairs in any cut, and exactly those that a naive join of what was on time
gives."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

import penstock as ps
from penstock.app import App
from penstock.errors import DefinitionError
from penstock.model.join import join_behind
from penstock.model.time import END, SECOND, instant
from penstock.testing import TestStream, join, run

LEFT, RIGHT = "ad int, user string, at timestamp", "ad_id bigint, place string, seen timestamp"


def app_with(**said):
    app = App("ads")
    made = [
        app.stream(name, ps.files(name), schema=schema, event_time=time, watermark=ps.bounded("20 seconds", idle=None))
        for name, schema, time in (("clicks", LEFT, "at"), ("shown", RIGHT, "seen"))
    ]
    said = {"on": "ad = ad_id", "within": ("-30 seconds", "5 seconds"), "name": "matched", **said}
    return made, made[0].join(made[1], **said)


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
        ({}, "12:00:05.000001"),  # a partner may be five seconds after it
        ({"bounds": "exclusive"}, "12:00:05"),
        ({"within": ("-30 seconds", "-5 seconds")}, "12:00:00.000001"),  # its own time is over
        ({"within": None, "window": ps.fixed("10 seconds")}, "12:00:10"),
    ],
)
def test_what_finds_none_is_given_out_once_none_can_come(said, last):
    streams, matched = app_with(how="left", **said)
    script = TestStream(*streams).add((1, "alone", at(0)), to="clicks")
    before = instant(f"2000-01-01T{last}Z") - 1
    assert join(matched, script.watermark(before)).rows == []
    assert [row[1] for row in join(matched, script.watermark(before).watermark(last)).rows] == ["alone"]


def test_a_view_over_a_join_is_tested_with_the_streams_alone():
    streams, matched = app_with(how="left", event_time="at")
    lost = matched.where("place IS NULL").group_by("user").window(ps.fixed("1 minute")).agg(n=ps.count())
    script = TestStream(*streams).add((1, "p", at(0)), to="shown").add((1, "a", at(1)), (2, "b", at(2)), to="clicks")
    assert run(lost, script).table == []
    for engine in ("reference", "kernel"):
        assert [row["user"] for row in run(lost, script.watermark(at(60)), engine).table] == ["b"]
    with pytest.raises(DefinitionError, match="lacks the stream 'shown'"):
        run(lost, TestStream(streams[0]))


def test_definitions_that_cannot_be_joined_are_refused():
    with pytest.raises(DefinitionError, match="how far apart"):
        app_with(within=None)
    with pytest.raises(DefinitionError, match="from the earlier to the later"):
        app_with(within=("5 seconds", "1 second"))
    with pytest.raises(DefinitionError, match="way to join streams"):
        app_with(how="outer")
    with pytest.raises(DefinitionError, match="cannot be joined in"):
        app_with(within=None, window=ps.session("1 minute"))
    app = App("ads")
    untimed = app.stream("untimed", ps.files("untimed"), schema=LEFT)
    with pytest.raises(DefinitionError, match="no event time or no watermark"):
        app.join("both", untimed, untimed, on="ad", within=("0 seconds", "0 seconds"))


def streams(**left):
    return [
        ps.stream(name, schema=schema, event_time=time, watermark=ps.bounded("20 seconds"), **said)
        for name, schema, time, said in (("clicks", f"{LEFT}, sign int", "at", left), ("shown", RIGHT, "seen", {}))
    ]


def test_a_stream_joined_with_another_is_a_stream():
    clicks, shown = streams()
    made = clicks.select("ad", "user", clicked="at").join(shown, on="ad = ad_id", within=("-1 hour", "5 seconds"))
    assert (made.name, made.event_time, made.sign) == ("clicks_shown_join", "greatest(clicked, seen)", None)
    assert made.schema.ddl() == "ad int, user string, clicked timestamp, ad_id bigint, place string, seen timestamp"
    other = made.join(clicks, on="user", within=("0 seconds", "1 minute"), prefix="next_", name="twice",
                      event_time="clicked")  # fmt: skip
    assert (other.name, other.event_time) == ("twice", "clicked")
    with pytest.raises(DefinitionError, match="the event time of the join 'made_clicks_join' is not known"):
        replace(made, name="made").join(clicks, on="user", within=("0 seconds", "1 minute"), prefix="next_")
    with pytest.raises(DefinitionError, match="needs an equality between"):
        clicks.join(shown, within=("0 seconds", "1 minute"))
    table = ps.table("users", schema="user string, tier string", key="user")
    with pytest.raises(DefinitionError, match="'users' is a table"):
        clicks.join(table, on="user", within=("0 seconds", "1 minute"))


@pytest.mark.parametrize(
    ("how", "time", "hold"),
    [
        ("inner", None, 0),  # one of a pair is not behind the watermark
        ("inner", "at", 5),
        ("inner", "seen", 3600),
        ("inner", "coalesce(at, seen)", 3600),
        ("left", None, 5),
        ("right", None, 3600),
        ("full", None, 3600),
        ("semi", None, 5),
        ("anti", None, 5),
    ],
)
def test_the_watermark_is_held_back_as_far_as_rows_may_lie_behind(how, time, hold):
    clicks, shown = streams()
    made = clicks.join(shown, on="ad = ad_id", within=("-1 hour", "5 seconds"), how=how, event_time=time)
    join = join_behind(made)
    assert join.hold(made.event_time) == hold * SECOND
    assert join.carried(END, made.event_time) == END
    assert join.carried(10_000 * SECOND, made.event_time) == (10_000 - hold) * SECOND
    window = join_behind(clicks.join(shown, on="ad = ad_id", window=ps.fixed("1 minute"), event_time="at"))
    assert window.hold("at") == 60 * SECOND - 1


def test_a_join_with_a_signed_stream_takes_rows_back():
    clicks, shown = streams(sign="sign")
    made = clicks.join(shown, on="ad = ad_id", within=("-1 hour", "5 seconds"))
    assert made.sign == "__change"
    assert "sign" not in made.schema, "what comes out has a sign of its own"
    script = TestStream(clicks, shown).add((1, "p", at(0)), to="shown").add((1, "a", at(1), 1), to="clicks")
    script = script.add((1, "a", at(1), -1), (1, "b", at(1), 1), to="clicks")
    found = join(made, script)
    assert [(row[1], sign) for row, sign in zip(found.rows, found.signs, strict=True)] == [
        ("a", 1),
        ("a", -1),
        ("b", 1),
    ]
    users = made.group_by("user").agg(n=ps.count())
    assert [(row["user"], row["n"]) for row in run(users, script).table] == [("b", 1)]


def test_steps_tables_and_code_may_stand_before_a_join():
    clicks, shown = streams()
    table = ps.table("users", schema="user string, tier string", key="user")
    coded = shown.transform(lambda rows: rows, schema=RIGHT)
    made = clicks.join(table, on="user").where("tier = 'gold'").join(coded, on="ad = ad_id", within=("0 seconds",) * 2,
                                                                      event_time="at")  # fmt: skip
    assert "tier" in made.schema
    with pytest.raises(DefinitionError, match="are not known"):
        clicks.join(shown.transform(lambda rows: rows), on="ad = ad_id", within=("0 seconds",) * 2)


def test_an_app_takes_along_the_joins_that_it_reads():
    app = App("ads")
    clicks, shown = (
        app.stream(name, ps.files(name), schema=schema, event_time=time, watermark=ps.bounded("20 seconds"))
        for name, schema, time in (("clicks", LEFT, "at"), ("shown", RIGHT, "seen"))
    )
    made = clicks.join(shown, on="ad = ad_id", within=("-1 hour", "5 seconds"))
    app.view("by_place", made.group_by("place").agg(n=ps.count()))
    app.view("by_user", made.where("place = 'p'").group_by("user").agg(n=ps.count()))
    assert app.streams["clicks_shown_join"] == made
    other = clicks.join(shown, on="ad = ad_id", within=("-1 hour", "6 seconds"))
    with pytest.raises(DefinitionError, match="the app has a stream 'clicks_shown_join' already"):
        app.view("other", other.group_by("place").agg(n=ps.count()))
