"""A running app on real files and real queries: bad input, views that come and go, ticks, restarts, refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import penstock as ps
from penstock.app import App
from penstock.errors import PenstockError
from penstock.model.time import instant
from penstock.runtime.errors import RunError
from penstock.runtime.run import Run
from tests.outbox import panes

SCHEMA = "page string, user string, ms int, at timestamp"


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = instant("2024-05-01T13:00:00Z")

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def put(root: Path, name: str, *lines: object) -> None:
    """A file of lines appears whole: rows as lists in the order of the columns, or raw text."""
    names = ["page", "user", "ms", "at"]
    texts = [line if isinstance(line, str) else json.dumps(dict(zip(names, line, strict=True))) for line in lines]
    hidden = root / f".{name}"
    hidden.write_text("\n".join(texts) + "\n")
    hidden.rename(root / "in" / f"{name}.json")


def make(root: Path, *, idle: str | None = None, id: str | None = None) -> tuple[App, ps.Stream]:
    app = App("test")
    stream = app.stream(
        "visits", ps.files(root / "in"), schema=SCHEMA, event_time="at", id=id,
        watermark=ps.bounded("10 seconds", idle=idle),
    )  # fmt: skip
    app.view("by_page", stream.group_by("page").window(ps.fixed("1 minute")).agg(n=ps.count(), ms=ps.sum("ms")))
    return app, stream


def started(app: App, root: Path, spark, clock: Clock | None = None) -> Run:
    return app.start(root / "state", spark=spark, tick=3600.0, clock=clock or Clock())


def rows(run: Run, sql: str) -> list[tuple]:
    return run.store.query(sql).rows()


def test_rows_that_cannot_be_read_are_dead_letters_with_reason_and_text(root, spark):
    app, _ = make(root)
    put(
        root, "a",
        ["/a", "u", 1, "2024-05-01T12:00:00Z"],
        "no json at all",
        ["/a", "u", "many", "2024-05-01T12:00:01Z"],
        ["/a", "u", 1, None],
        ["/a", "u", 1, "9999-01-01T00:00:00Z"],
    )  # fmt: skip
    run = started(app, root, spark)
    try:
        run.catch_up()
        assert rows(run, "SELECT page, n FROM by_page") == [("/a", 1)]
        dead = rows(run, "SELECT reason, row FROM __refused WHERE kind = 'dead' ORDER BY reason, row")
        assert [reason for reason, _ in dead] == [
            "the event time is more than 1 day ahead",
            "the event time is null",
            "the row does not fit the stream's schema",
            "the row does not fit the stream's schema",
        ]
        assert "no json at all" in [row for _, row in dead]
        assert any("many" in row for _, row in dead)
        assert run.store.counters()["visits.dead"] == 4
        assert run.store.counters()["visits.events"] == 5
    finally:
        run.stop()


def test_views_come_and_go_while_the_app_runs(root, spark):
    app, stream = make(root)
    put(root, "a", ["/a", "u", 1, "2024-05-01T12:00:00Z"])
    run = started(app, root, spark)
    try:
        run.catch_up()
        people = stream.group_by("user").agg(n=ps.count())  # a column that nobody read so far
        run.add_view("people", people)
        put(root, "b", ["/a", "u", 2, "2024-05-01T12:00:05Z"], ["/b", "w", 3, "2024-05-01T12:00:06Z"])
        run.catch_up()
        assert sorted(rows(run, "SELECT user, n FROM people")) == [("u", 1), ("w", 1)]
        assert sorted(rows(run, "SELECT page, n, ms FROM by_page")) == [("/a", 2, 3), ("/b", 1, 3)]
        run.drop_view("people")
        put(root, "c", ["/b", "w", 4, "2024-05-01T12:00:07Z"])
        run.catch_up()
        assert sorted(rows(run, "SELECT page, n, ms FROM by_page")) == [("/a", 2, 3), ("/b", 2, 7)]
        assert "people" not in run.store.views()
    finally:
        run.stop()


def test_time_passes_without_events(root, spark):
    app = App("test")
    clock = Clock()
    stream = app.stream(
        "visits",
        ps.files(root / "in"),
        schema=SCHEMA,
        event_time="at",
        watermark=ps.bounded("10 seconds", idle="1 minute"),
    )
    app.view("sessions", stream.group_by("user").window(ps.session("30 seconds")).agg(n=ps.count()))
    app.view("every", stream.group_by().agg(n=ps.count()).trigger(ps.every("10 seconds")))
    put(root, "a", ["/a", "u", 1, "2024-05-01T12:00:00Z"])
    run = started(app, root, spark, clock)
    try:
        run.catch_up()
        while not run.is_caught_up("visits"):  # Spark says so between two looks at the directory
            run.wait(0.01)
        assert rows(run, "SELECT final FROM sessions") == [(0,)]
        assert panes(run.store).height == 0
        clock.now += 15_000_000
        run.groups.of("visits").engine.tick(clock())
        assert panes(run.store)["view"].to_list() == ["every"]
        clock.now += 60_000_000
        run.groups.of("visits").engine.tick(clock())
        assert rows(run, "SELECT final FROM sessions") == [(1,)]  # a session of one event ends
        assert run.groups.of("visits").engine.tick(clock()) is None  # and then nothing is written any more
    finally:
        run.stop()


def test_a_restart_goes_on_where_the_commits_ended_and_ids_are_known(root, spark):
    app, _ = make(root, id="concat(page, user)")
    put(root, "a", ["/a", "u", 1, "2024-05-01T12:00:00Z"], ["/a", "u", 1, "2024-05-01T12:00:00Z"])
    run = started(app, root, spark)
    run.catch_up()
    run.stop()
    put(root, "b", ["/a", "u", 1, "2024-05-01T12:00:00Z"], ["/a", "v", 1, "2024-05-01T12:00:01Z"])
    again, _ = make(root, id="concat(page, user)")
    run = started(again, root, spark)
    try:
        run.catch_up()
        assert rows(run, "SELECT page, n FROM by_page") == [("/a", 2)]
        assert run.store.counters()["visits.duplicate"] == 2
    finally:
        run.stop()


def test_a_second_run_in_the_same_directory_is_refused(root, spark):
    app, _ = make(root)
    run = started(app, root, spark)
    try:
        with pytest.raises(PenstockError, match="is in use"):
            started(make(root)[0], root, spark)
    finally:
        run.stop()


def test_a_changed_definition_is_refused_with_the_way_out(root, spark):
    app, _ = make(root)
    put(root, "a", ["/a", "u", 1, "2024-05-01T12:00:00Z"])
    run = started(app, root, spark)
    run.catch_up()
    run.stop()
    other = App("test")
    stream = other.stream(
        "visits", ps.files(root / "in"), schema=SCHEMA, event_time="at", watermark=ps.bounded("10 seconds")
    )
    other.view("by_page", stream.group_by("page").window(ps.fixed("2 minutes")).agg(n=ps.count(), ms=ps.sum("ms")))
    with pytest.raises(PenstockError, match="by_page"):
        started(other, root, spark)


def test_a_store_that_is_behind_the_checkpoint_refuses_to_run(root, spark):
    app, _ = make(root)
    put(root, "a", ["/a", "u", 1, "2024-05-01T12:00:00Z"])
    run = started(app, root, spark)
    run.catch_up()
    run.stop()
    for path in (root / "state").glob("store.db*"):
        path.unlink()
    put(root, "b", ["/a", "u", 1, "2024-05-01T12:00:01Z"])
    with pytest.raises(RunError, match="the store is behind"):
        started(make(root)[0], root, spark)


def test_a_lost_checkpoint_is_noticed(root, spark):
    app, _ = make(root)
    put(root, "a", ["/a", "u", 1, "2024-05-01T12:00:00Z"])
    run = started(app, root, spark)
    run.catch_up()
    run.stop()
    shutil.rmtree(root / "state" / "checkpoints")
    with pytest.raises(RunError, match="checkpoint"):
        started(make(root)[0], root, spark)


def test_a_missing_directory_is_named(root, spark):
    app = App("test")
    stream = app.stream("visits", ps.files(root / "nowhere"), schema=SCHEMA)
    app.view("n", stream.group_by().agg(n=ps.count()))
    with pytest.raises(PenstockError, match="there is no directory"):
        started(app, root, spark)


def test_panes_reach_their_sinks_once_across_a_restart(root, spark):
    got: list[dict] = []

    def again() -> App:
        app, _ = make(root)
        app.sink("by_page", ps.to_jsonl(root / "panes"))
        app.sink(app.views["by_page"], ps.to_function(got.extend), name="taken")
        return app

    put(root, "a", ["/a", "u", 1, "2024-05-01T12:00:00Z"], ["/a", "u", 2, "2024-05-01T12:02:00Z"])
    run = started(again(), root, spark)
    run.catch_up()
    run.stop()
    put(root, "b", ["/b", "u", 1, "2024-05-01T12:02:05Z"], ["/b", "u", 2, "2024-05-01T12:05:00Z"])
    run = started(again(), root, spark)
    run.catch_up()
    run.stop()
    lines = [json.loads(line) for file in sorted((root / "panes").glob("*.jsonl")) for line in file.open()]
    expected = [("/a", 1, 1), ("/a", 2, 2), ("/b", 1, 3)]
    assert [(line["page"], line["ms"], line["pane"]) for line in lines] == expected
    assert [(row["page"], row["ms"], row["pane"]) for row in got] == expected
