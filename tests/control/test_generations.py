"""Generations by commands: on an app that runs, from beside it, and on a stopped one; by the clock; at a start."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import cli
from penstock.control import Client, Live, Panes, RemoteError, SubscriptionError
from penstock.sql import parse_one
from penstock.store import Reader
from tests.control.support import BY_PAGE, BY_USER, app, put, started, table

APP = """
import penstock as ps

app = ps.App("shop")
visits = app.stream("visits", ps.files({folder!r}), schema="page string, user string, ms int, at timestamp",
                    event_time="at", watermark=ps.bounded("10 seconds"))
app.view("by_page", visits.where("{condition}").group_by("page").agg(n=ps.count(), ms=ps.sum("ms")))
"""
WINDOWED = """CREATE CONTINUOUS VIEW by_minute AS SELECT page, window_start, window_end, count(*) AS n
    FROM TUMBLE(visits, at, INTERVAL 1 MINUTE) GROUP BY page, window_start, window_end"""


def command(*words: object) -> str:
    found = CliRunner().invoke(cli, [*map(str, words)])
    assert found.exit_code == 0, found.output
    return found.output


def test_commands_compute_the_views_of_an_app_that_runs(tmp_path: Path, spark) -> None:
    live = started(tmp_path, spark, WINDOWED)
    state = tmp_path / "state"
    try:
        put(tmp_path, "a", ("/a", "u", 1, 0), ("/a", "u", 1, 100))
        live.catch_up()
        put(tmp_path, "b", ("/a", "u", 1, 1))  # late
        live.catch_up()
        by_start = "SELECT window_start, n FROM by_minute"
        assert sorted(table(live, by_start).values()) == [1, 1]
        out = command("batch", "--late", "as-live", "--dir", state)
        assert out.splitlines()[-1].split() == ["by_minute", "as-live", "3", "2", "3"]
        assert sorted(table(live, by_start).values()) == [1, 1]
        out = command("batch", "--dir", state)
        assert out.splitlines()[-1].split() == ["by_minute", "batch", "3", "3", "4"]
        assert sorted(table(live, by_start).values()) == [1, 2]
        assert command("batch", "by_minute", "--dir", state).splitlines()[-1].split()[2] == "0"  # nothing is new
        assert "replay" in command("replay", "visits", "--from", "1", "--dir", state)  # the second epoch only
        assert list(table(live, by_start).values()) == [1]
        command("replay", "visits", "--dir", state)
        assert sorted(table(live, by_start).values()) == [1, 2]
        assert Client(state).do("progress").rows == ()
        with pytest.raises(RemoteError, match="no earlier definition"):
            Client(state).do("rollback", view="by_minute")
        subscription = Panes(Reader(state), parse_one("SUBSCRIBE TO by_minute"))
        file = tmp_path / "other.sql"
        stream = app(tmp_path).streams["visits"]
        assert stream == live.app.streams["visits"]
        file.write_text(
            "CREATE STREAM visits (page STRING, user STRING, ms INT, at TIMESTAMP, "
            f"WATERMARK FOR at AS at - INTERVAL 10 SECONDS) FROM FILES '{tmp_path / 'in'}'; "
            + WINDOWED.replace("count(*) AS n", "max(ms) AS top")
        )
        out = command("replace", file, "by_minute", "--dir", state, "--dry-run")
        assert "'by_minute' would differ in 2 rows: 2 change, 0 appear, 0 vanish" in out
        assert "another definition" in command("replace", file, "by_minute", "--dir", state)
        assert live.store.query("SELECT top FROM by_minute").height == 2
        with pytest.raises(SubscriptionError, match="replaced by one with other columns"):
            subscription.take()
        assert "rollback" in command("rollback", "by_minute", "--dir", state)
        assert sorted(table(live, by_start).values()) == [1, 2]
    finally:
        live.stop()


def test_a_view_of_a_stopped_app_is_tried_and_replaced(tmp_path: Path, spark) -> None:
    (tmp_path / "in").mkdir()
    file, state = tmp_path / "shop.py", tmp_path / "state"

    def write(condition: str) -> None:
        file.write_text(APP.format(folder=str(tmp_path / "in"), condition=condition))

    put(tmp_path, "a", ("/a", "u", 1, 0), ("/a", "u", 20, 1), ("/b", "u", 30, 2))
    write("ms > 0")
    command("run", file, "--dir", state, "--until-caught-up", "--no-serve")
    write("ms > 10")
    refused = CliRunner().invoke(cli, ["run", str(file), "--dir", str(state), "--until-caught-up", "--no-serve"])
    assert refused.exit_code == 1
    out = command("replace", file, "by_page", "--dir", state, "--dry-run")
    assert "would differ in 1 rows: 1 change, 0 appear, 0 vanish" in out
    assert out.splitlines()[-1].split()[-4:] == ["2", "21", "1", "20"]
    assert Reader(state).query("SELECT n FROM by_page ORDER BY n").rows() == [(1,), (2,)]
    command("replace", file, "by_page", "--dir", state)
    assert Reader(state).query("SELECT page, ms FROM by_page ORDER BY page").rows() == [("/a", 20), ("/b", 30)]
    put(tmp_path, "b", ("/b", "u", 5, 3), ("/b", "u", 50, 3))
    command("run", file, "--dir", state, "--until-caught-up", "--no-serve")
    assert Reader(state).query("SELECT page, ms FROM by_page ORDER BY page").rows() == [("/a", 20), ("/b", 80)]


def test_a_view_that_is_new_at_a_start_begins_with_history_and_its_sinks_follow(tmp_path: Path, spark) -> None:
    live = started(tmp_path, spark, BY_PAGE)
    put(tmp_path, "a", ("/a", "u", 1, 0), ("/a", "w", 1, 1))
    live.catch_up()
    noted = BY_USER.replace("by_user", "noted")
    live.store.note("view", "noted", noted)  # a shell made it, and the app is killed before it is whole
    live.stop()
    later = BY_USER.replace("by_user", "later").replace("VIEW later", "VIEW later WITH (backfill = false)")
    sink = f"CREATE SINK panes FROM by_user INTO FILES '{tmp_path}/out'"
    live = started(tmp_path, spark, BY_PAGE, BY_USER, later, sink)
    try:
        live.catch_up()
        assert not live.works.failures
        put(tmp_path, "b", ("/a", "u", 1, 2))
        live.catch_up()
        assert table(live, "SELECT user, n FROM by_user") == {"u": 2, "w": 1}
        assert table(live, "SELECT user, n FROM later") == {"u": 1}
        assert table(live, "SELECT user, n FROM noted") == {"u": 2, "w": 1}
        assert {entry.name: entry.statement for entry in live.store.catalog()}["noted"] == noted
        assert "by_user" in live.run.delivery.targets
    finally:
        live.stop()


def test_views_are_computed_as_often_as_they_say(tmp_path: Path, spark) -> None:
    often = WINDOWED.replace("VIEW by_minute", "VIEW by_minute WITH (batch = '1 second')")
    live: Live = started(tmp_path, spark, often)
    try:
        put(tmp_path, "a", ("/a", "u", 1, 0), ("/a", "u", 1, 100))
        live.catch_up()
        put(tmp_path, "b", ("/a", "u", 1, 1))  # late
        live.catch_up()
        while sorted(table(live, "SELECT window_start, n FROM by_minute").values()) != [1, 2]:
            live.wait(0.1)
        assert not live.works.failures
    finally:
        live.stop()
