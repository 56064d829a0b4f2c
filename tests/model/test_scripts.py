"""Scripts of tests: several lines in one commit, and the rows of streams, joins and processors in one shape."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import penstock as ps
from penstock.errors import DefinitionError
from penstock.model.time import instant
from penstock.testing import TestStream, join, process, run

VISITS = ps.stream("visits", schema="page string, at timestamp", event_time="at", watermark=ps.bounded("10 seconds"))
CLICKS = ps.stream("clicks", schema="page string, ad int", id="ad")


def test_events_watermark_and_clock_of_one_commit() -> None:
    script = (
        TestStream(VISITS, CLICKS, clock="12:00:00")
        .add(("/a", "12:00:05"), to="visits")
        .also.add(("/a", 1), to="clicks")
        .also.clock("+10 seconds")
        .also.watermark("12:00:07", stream="visits")
        .clock("+1 second")
    )
    first, second = (commit for commit in script.commits() if commit is not None)
    assert [(event.stream, event.offset) for event in first.events] == [("visits", 0), ("clicks", 0)]
    assert first.now == instant("2000-01-01T12:00:10Z")
    assert first.fixed == {"visits": instant("2000-01-01T12:00:07Z")}
    assert (second.events, second.now - first.now) == ((), 1_000_000)


def test_a_trigger_sees_the_clock_of_its_commit() -> None:
    early = VISITS.group_by("page").window(ps.fixed("1 minute")).agg(n=ps.count())
    early = early.trigger(ps.on_time(early=ps.every("10 seconds")))
    script = TestStream(VISITS, clock="12:00:00").add(("/a", "12:00:05"))
    together = script.add(("/a", "12:00:06")).also.clock("+10 seconds")
    for engine in ("kernel", "reference"):
        assert [(pane["commit"], pane["n"]) for pane in run(early, together, engine).panes] == [(2, 2)]


def test_only_commits_go_together() -> None:
    with pytest.raises(DefinitionError, match="also follows a line that is a commit"):
        _ = TestStream(VISITS).also
    with pytest.raises(DefinitionError, match="'restart' is no part of a commit"):
        TestStream(VISITS).clock("+1 second").also.restart()


def test_the_rows_of_a_stream_have_their_commit() -> None:
    script = TestStream(CLICKS).add(("/a", 1), ("/b", 2)).restart().add(("/a", 1), ("/c", 3))
    result = run(CLICKS.where("page <> '/b'").select("page", twice="ad * 2"), script)
    assert result.rows == [{"commit": 1, "page": "/a", "twice": 2}, {"commit": 2, "page": "/c", "twice": 6}]
    assert [row["ad"] for row in result.duplicates] == [1]
    assert not result.dead
    assert str(result).splitlines()[0].split() == ["commit", "page", "twice"]
    assert "<td>/c</td>" in result._repr_html_()


class Totals(ps.Processor):
    output = "page string, total int"
    total = ps.value("int", default=0)

    def on_event(self, key: str, event: object, time: object) -> Iterator[tuple[str, int]]:
        self.total += event.ad  # type: ignore[attr-defined]
        yield key, self.total


def test_joins_and_processors_have_the_same_rows_as_with_their_own_functions() -> None:
    shown = ps.stream("shown", schema="ad int, at timestamp", event_time="at", watermark=ps.bounded("10 seconds"))
    taps = ps.stream("taps", schema="ad int, at timestamp", event_time="at", watermark=ps.bounded("10 seconds"))
    pairs = shown.join(taps, on="ad", within="1 minute", prefix="tap_")
    script = TestStream(shown, taps).add((1, "12:00:00"), to="shown").also.add((1, "12:00:05"), to="taps")
    script = script.add((1, "12:00:09"), to="taps")
    result = run(pairs, script)
    assert [row["commit"] for row in result.rows] == [1, 2]
    assert [len(row) - 1 for row in result.rows] == [len(row) for row in join(pairs, script).rows]

    app = ps.App("pages")
    app.take_stream(CLICKS)
    totals = app.process("totals", CLICKS, Totals, by="page")
    events = TestStream(CLICKS).add(("/a", 1), ("/a", 2)).add(("/a", 4))
    rows = run(totals, events).rows
    assert [(row["commit"], row["total"]) for row in rows] == [(1, 1), (1, 3), (2, 7)]
    assert [{name: row[name] for name in ("page", "total")} for row in rows] == process(totals, events).rows


def test_what_is_neither_a_view_nor_a_stream_is_refused_with_what_to_do() -> None:
    script = TestStream(CLICKS)
    with pytest.raises(DefinitionError, match=r"end it with \.agg"):
        run(CLICKS.group_by("page"), script)  # type: ignore[call-overload]
    with pytest.raises(DefinitionError, match="not a view or a stream"):
        run("clicks", script)  # type: ignore[call-overload]
    with pytest.raises(DefinitionError, match="runs on the reference"):
        run(CLICKS, script, engine="spark")
    with pytest.raises(DefinitionError, match="lacks the stream 'visits'"):
        run(VISITS, script)
    with pytest.raises(DefinitionError, match="not a script: '12:00 page=/a'"):
        run(CLICKS, "12:00 page=/a")  # type: ignore[call-overload]
    with pytest.raises(DefinitionError, match="not a script: None"):
        process(Totals, None, by="page")  # type: ignore[arg-type]
