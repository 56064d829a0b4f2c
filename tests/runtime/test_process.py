"""Processors on Spark against the reference: rows, refusals, side outputs and state, over restarts and ticks."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

import penstock as ps
from penstock.app import App
from penstock.control.history import asked
from penstock.errors import DefinitionError
from penstock.history.batch.questions import Historian
from penstock.history.savepoints.restore import restore
from penstock.model.process import Processed
from penstock.model.time import SECOND, instant
from penstock.runtime.errors import RunError
from penstock.runtime.run import Run
from penstock.sql.read import parse_one
from penstock.sql.statements import History
from penstock.testing import TestStream, process

SCHEMA = "user string, page string, size int, at timestamp"


class Sessions(ps.Processor):
    """Clicks up to ten minutes apart."""

    output = "user string, clicks bigint, at timestamp"
    sides: ClassVar = {"errors": "who string, page string"}
    clicks = ps.value("bigint", default=0)
    pages = ps.list_of("string")
    sizes = ps.map_of("string", "bigint", ttl="1 hour")

    def on_event(self, key, event, time):
        if event.page == "/bad":
            raise ValueError("no such page")
        self.clicks += 1
        self.pages.append(event.page)
        self.sizes[event.page] = event.size
        if event.page == "/500":
            self.emit_to("errors", who=key, page=event.page)
        self.set_timer(time + timedelta(minutes=10), name="end")
        self.set_timer(after="30 seconds", clock="processing", name="look")

    def on_timer(self, key, timer):
        yield {"user": f"{key} {timer.name}", "clicks": self.clicks, "at": timer.at}
        if timer.name == "end":
            self.clear()


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = instant("2000-01-01T09:00:00Z")

    def __call__(self) -> int:
        return self.now


def define(root: Path, by: str = "user") -> tuple[App, ps.Stream, Processed]:
    app = App("test")
    clicks = app.stream(
        "clicks", ps.files(root / "in", files_per_epoch=1), schema=SCHEMA, event_time="at",
        watermark=ps.bounded("10 seconds", idle=None), max_ahead=None,
    )  # fmt: skip
    sessions = app.process(
        "sessions", clicks.where("CAST(page AS string) <> '/no'").select("user", "page", "size", "at"), Sessions,
        by=by, event_time="at", watermark=ps.bounded("0 seconds", idle=None), max_ahead=None,
    )  # fmt: skip
    app.view("ended", sessions.group_by("user").agg(n=ps.count(), clicks=ps.sum("clicks")))
    app.view("errors", sessions.side("errors").group_by("who").agg(n=ps.count()))
    return app, clicks, sessions


EPOCHS: list[list[tuple]] = [
    [("ann", "/a", 1, "12:00:00"), ("bob", "/500", 2, "12:01:00"), ("ann", "/bad", 3, "12:00:05")],
    [("ann", "/b", 4, "12:05:00"), ("cat", "/no", 5, "12:05:00"), (None, "/n", 6, "12:05:30")],
    [("dan", "/d", 7, "12:13:00")],
    [("ann", "/late", 8, "12:00:00"), ("bob", "/500", 9, "12:13:30")],
    [("eve", "/e", 10, "12:40:00")],
]


def put(root: Path, number: int, rows: list[tuple]) -> None:
    names = ("user", "page", "size", "at")
    hidden = root / ".hidden"
    lines = [dict(zip(names, (*row[:3], f"2000-01-01T{row[3]}Z"), strict=True)) for row in rows]
    hidden.write_text("".join(json.dumps(line) + "\n" for line in lines))
    hidden.rename(root / "in" / f"{number}.json")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def started(app: App, root: Path, spark: Any, clock: Clock) -> Run:
    return app.start(root / "state", spark=spark, tick=3600.0, clock=clock)


def tick(run: Run) -> None:
    with run.groups.turn(run.streams) as engine:
        engine.tick(run.now())


def test_a_processor_on_spark_does_what_the_reference_does(spark, root: Path):
    app, clicks, sessions = define(root)
    clock, script = Clock(), TestStream(clicks, clock="09:00:00")
    run = started(app, root, spark, clock)
    for number, rows in enumerate(EPOCHS):
        put(root, number, rows)
        script = script.add(*rows)
        run.catch_up()
        if number == 2:
            run.stop()  # and goes on from its checkpoint
            run = started(app, root, spark, clock)
        clock.now += 20 * SECOND
        script = script.clock("+20 seconds")
        tick(run)
        run.catch_up()
    expected = process(sessions, script)
    try:
        ended = run.store.query("SELECT user, n, clicks FROM ended").rows()
        rows = Counter((row["user"], row["clicks"]) for row in expected.rows)
        assert sum(rows.values()) > 5
        assert {user: n for user, n, _ in ended} == Counter(user for user, _ in rows.elements())
        sums = {user: sum(clicks * n for (u, clicks), n in rows.items() if u == user) for user, _ in rows}
        assert {user: n for user, _, n in ended} == sums
        assert run.store.query("SELECT who, n FROM errors").rows() == [("bob", len(expected.sides["errors"]))]
        refused = run.store.query("SELECT kind, reason, row FROM __refused ORDER BY kind").rows()
        assert [(kind, json.loads(row)["page"]) for kind, _, row in refused] == [("dead", "/bad"), ("late", "/late")]
        assert [reason for _, reason, _ in refused] == [expected.dead[0]["reason"], expected.late[0]["reason"]]
        counters = run.store.counters()
        assert (counters["sessions.dead"], counters["sessions.late"]) == (1, 1)
        state = {row.pop("user"): row for row in run.processor_state("sessions").to_dicts()}
        assert state.keys() == expected.state.keys()
        assert {user: row["pages"] for user, row in state.items()} == {
            user: held["pages"] for user, held in expected.state.items()
        }
        assert [timer["name"] for timer in state["eve"]["timers"]] == ["look", "end"]
        historian = Historian(spark, run.store, app.streams, run.history, None, run.processor_state)
        statement = parse_one("SELECT user, size(pages) AS n FROM STATE(sessions) WHERE clicks > 0 ORDER BY user")
        assert isinstance(statement, History)
        answer = asked(historian, statement, app.streams, ["ended"]).rows()
        assert answer == sorted((user, len(held["pages"])) for user, held in expected.state.items())
        with pytest.raises(RunError, match="is made from 'clicks'"):
            run.drop_stream("clicks")
        with pytest.raises(RunError, match="not what a processor gives"):
            run.processor_state("clicks")
    finally:
        run.stop()
    with pytest.raises(DefinitionError, match="'sessions' had another definition"):
        started(define(root, by="size")[0], root, spark, clock)


def test_what_a_processor_cannot_read_is_refused(root: Path):
    app = App("test")
    kept = app.stream("kept", ps.files(root / "in"), schema=SCHEMA, event_time="at")
    unkept = app.stream("unkept", ps.files(root / "in"), schema=SCHEMA, event_time="at", keep="none")
    app.process("b", unkept, Sessions, by="user")
    with pytest.raises(DefinitionError, match="which is not this app's"):
        app.process("a", ps.stream("other", schema=SCHEMA), Sessions, by="user")
    with pytest.raises(DefinitionError, match="needs a column of its output"):
        app.process("a", kept, Sessions, by="user", event_time="current_timestamp()")
    made = app.process("a", kept, Sessions, by="user")
    with pytest.raises(DefinitionError, match="unknown side output"):
        made.side("error")
    with pytest.raises(DefinitionError, match="already"):
        app.process("a", kept, Sessions, by="user")


@pytest.mark.deep
def test_a_savepoint_holds_the_state_and_late_events_stay_late_where_spark_computes_columns(spark, root: Path):
    app, clicks, sessions = define(root)
    app.view("sounds", sessions.group_by(sound="soundex(user)").agg(n=ps.count()))
    clock, script = Clock(), TestStream(clicks, clock="09:00:00")
    run = started(app, root, spark, clock)
    for number, rows in enumerate(EPOCHS):
        if number == 2:
            point = run.savepoint("cut")
        put(root, number, rows)
        script = script.add(*rows)
        run.catch_up()
    expected = process(sessions, script)

    def check(there: Run) -> None:
        counters = there.store.counters()
        assert (counters["sessions.dead"], counters["sessions.late"]) == (len(expected.dead), len(expected.late))
        assert there.store.query("SELECT sum(n) FROM ended").item() == len(expected.rows)
        assert there.store.query("SELECT sum(n) FROM sounds").item() == len(expected.rows)
        assert there.processor_state("sessions").height == len(expected.state)

    try:
        check(run)
    finally:
        run.stop()
    restore(point, root / "other")
    again = app.start(root / "other", spark=spark, tick=3600.0, clock=clock)
    try:
        again.catch_up()
        check(again)
    finally:
        again.stop()
