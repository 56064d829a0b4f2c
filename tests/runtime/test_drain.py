"""The end of input: open windows fire on time, timers and joins give what they hold, and what comes later is late."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from typer.testing import CliRunner

import penstock as ps
from penstock.app import App
from penstock.cli import cli
from penstock.history.events.compact import Compaction
from penstock.model.time import END
from penstock.runtime.run import Run
from penstock.store import SqliteStore
from penstock.testing import TestStream, join, process
from tests.history.events.support import NOW, rows
from tests.history.events.support import App as Orders

CLICKS = [("ann", 1, "12:00:10"), ("bob", 2, "12:00:50"), ("ann", 1, "12:03:20")]
SHOWN = [(1, "12:00:05"), (9, "12:03:00")]


class Sessions(ps.Processor):
    """Clicks up to ten minutes apart."""

    output = "user string, clicks bigint, at timestamp"
    clicks = ps.value("bigint", default=0)

    def on_event(self, key, event, time):
        self.clicks += 1
        self.set_timer(time + timedelta(minutes=10), name="end")

    def on_timer(self, key, timer):
        yield {"user": key, "clicks": self.clicks, "at": timer.at}


def define(root: Path) -> tuple[App, ps.Stream, ps.Stream]:
    for name in ("clicks", "shown"):
        (root / name).mkdir(exist_ok=True)
    app = App("ads")
    slow = {"watermark": ps.bounded("1 hour", idle=None), "max_ahead": None}
    clicks = app.stream(
        "clicks", ps.files(root / "clicks"), schema="user string, ad int, at timestamp", event_time="at", **slow
    )
    shown = app.stream("shown", ps.files(root / "shown"), schema="ad int, seen timestamp", event_time="seen", **slow)
    sessions = app.process("sessions", clicks, Sessions, by="user", event_time="at", **slow)
    matched = app.join(
        "matched", clicks, shown, on="ad", within=("-1 minute", "0 seconds"), how="left", event_time="at", **slow
    )
    minute = ps.fixed("1 minute")
    app.view("by_user", clicks.group_by("user").window(minute).agg(n=ps.count()).retain("1 minute"))
    app.view("ended", sessions.group_by("user").window(ps.fixed("1 hour")).agg(clicks=ps.sum("clicks")))
    app.view("alone", matched.where("seen IS NULL").window(ps.fixed("1 hour")).agg(n=ps.count()))
    app.sink("by_user", ps.to_jsonl(root / "out"))
    return app, clicks, shown


def put(root: Path, folder: str, name: str, found: list[dict]) -> None:
    hidden = root / f".{name}"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in found))
    hidden.rename(root / folder / f"{name}.json")


def finals(run: Run, view: str, *columns: str) -> list[tuple]:
    return sorted(run.store.query(f"SELECT {', '.join(columns)}, final FROM {view}").rows())


def test_a_drained_app_has_fired_its_last_windows_timers_and_joins(spark, tmp_path: Path):
    app, _, _ = define(tmp_path)
    clicks = [{"user": user, "ad": ad, "at": f"2000-01-01T{at}Z"} for user, ad, at in CLICKS]
    put(tmp_path, "clicks", "a", clicks)
    put(tmp_path, "shown", "a", [{"ad": ad, "seen": f"2000-01-01T{at}Z"} for ad, at in SHOWN])
    run = app.start(tmp_path / "state", spark=spark, tick=3600.0)
    try:
        run.catch_up()
        assert {final for *_, final in finals(run, "by_user", "user", "n")} == {0}, "the watermark is an hour behind"
        run.drain()
        assert finals(run, "by_user", "user", "n") == [("ann", 1, 1), ("ann", 1, 1), ("bob", 1, 1)]
        assert finals(run, "ended", "user", "clicks") == [("ann", 2, 1), ("bob", 1, 1)]
        assert finals(run, "alone", "n") == [(2, 1)]
        commits = run.store.query("SELECT max(number) FROM __commits").item()
        for group in run.groups.all:
            group.engine.tick(run.now())
        assert run.store.query("SELECT max(number) FROM __commits").item() == commits, "nothing is due any more"
        assert set(run.drained) == {"clicks", "shown", "sessions", "matched"}
    finally:
        run.stop()
    panes = [json.loads(line) for file in sorted((tmp_path / "out").glob("*.jsonl")) for line in file.open()]
    timings = sorted((pane["user"], pane["timing"]) for pane in panes)
    assert timings == [("ann", "on time"), ("ann", "on time"), ("bob", "on time")]
    put(tmp_path, "clicks", "b", [{"user": "eve", "ad": 1, "at": "2000-01-02T12:00:00Z"}])
    run = app.start(tmp_path / "state", spark=spark, tick=3600.0)
    try:
        run.catch_up()
        assert len(finals(run, "by_user", "user")) == 3, "late for the windows that were closed"
        assert run.store.counters()["clicks.late_events"] == 1
    finally:
        run.stop()


def test_the_reference_gives_what_timers_and_joins_hold_at_the_end(tmp_path: Path):
    app, clicks, shown = define(tmp_path)
    script = TestStream(clicks, clock="12:00:00").add(*CLICKS)
    assert process(Sessions, script, by="user").rows == []
    ended = process(Sessions, script.end(), by="user")
    assert [(row["user"], row["clicks"]) for row in ended.rows] == [("ann", 2), ("bob", 1)]
    both = TestStream(clicks, shown, clock="12:00:00").add(*CLICKS, to="clicks").add(*SHOWN, to="shown")
    assert len(join(app.streams["matched"], both).rows) == 1
    assert len(join(app.streams["matched"], both.end()).rows) == 3


def test_draining_needs_an_end_of_input():
    found = CliRunner().invoke(cli, ["run", "--drain"])
    assert found.exit_code == 2
    assert "--until-caught-up" in found.output


def test_the_end_of_input_makes_neither_rows_nor_history_old(tmp_path: Path):
    orders = Orders(tmp_path, keep="1 minute")
    orders.epoch(rows((1, "a", 1), (2, "b", 30)))
    orders.engine.tick(NOW, {"orders": END})
    assert Compaction(orders.history).run(NOW).expired == 0
    assert orders.held().height == 2
    assert {final for (final,) in orders.store.query("SELECT final FROM by_user").rows()} == {1}
    orders.close()
    again = SqliteStore.open(tmp_path)
    assert again.trackers()["orders"]["watermark"] == END
