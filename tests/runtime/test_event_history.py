"""The history on real queries: what a stream accepts is kept once, whatever its epochs go through."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import penstock as ps
from penstock.app import App
from penstock.history.events.dead import dead_letters
from penstock.history.events.event_history import EventHistory
from penstock.model.time import BEGINNING, instant
from penstock.runtime.run import Run
from penstock.store import SqliteStore

SCHEMA = "id bigint, user string, tags array<string>, price decimal(10,2), at timestamp"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def put(root: Path, name: str, *lines: object) -> None:
    """A file of lines appears whole: rows as dicts, or raw text."""
    hidden = root / f".{name}"
    hidden.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    hidden.rename(root / "in" / f"{name}.json")


def event(id: int, second: int, user: str = "u", **more: object) -> dict[str, object]:
    return {
        "id": id,
        "user": user,
        "tags": ["a", None],
        "price": "1.50",
        "at": f"2024-05-01T12:00:{second:02d}Z",
        **more,
    }


def make(root: Path, *, id: str | None = None, keep: str | None = None) -> App:
    app = App("test")
    stream = app.stream(
        "orders", ps.files(root / "in", files_per_epoch=1), schema=SCHEMA, event_time="at", id=id, keep=keep,
        watermark=ps.bounded("10 seconds", idle=None),
    )  # fmt: skip
    app.view("by_user", stream.group_by("user").window(ps.fixed("10 seconds")).agg(n=ps.count()))
    return app


def started(app: App, root: Path, spark, **options: object) -> Run:
    clock = lambda: instant("2024-05-01T13:00:00Z")  # noqa: E731
    return app.start(root / "state", spark=spark, tick=3600.0, clock=clock, **options)


def held(run: Run, spark, **bounds: object) -> list[tuple]:
    """The rows that the history holds, in the order of their commits and places."""
    past = EventHistory(run.store).past(run.streams["orders"], **bounds)
    frame = past.frame(spark, ["id", "user"])
    found = sorted(tuple(row) for row in frame.select("__commit", "id", "user", "__partition", "__offset").collect())
    if past.rows is not None:
        assert past.rows == len(found)
    return [row[:3] for row in found]


def test_every_accepted_event_is_kept_by_the_commit_that_brought_it(root, spark):
    app = make(root, id="id")
    put(root, "a", event(1, 1), event(2, 2), "no json", event(1, 3), event(9, 1, at=None))
    run = started(app, root, spark)
    try:
        run.catch_up()
        put(root, "b", event(3, 55), event(2, 4))
        run.catch_up()
        put(root, "c", event(4, 5))  # late for its window, and accepted
        run.catch_up()
        assert held(run, spark) == [(1, 1, "u"), (1, 2, "u"), (2, 3, "u"), (3, 4, "u")]
        assert held(run, spark, through=2) == [(1, 1, "u"), (1, 2, "u"), (2, 3, "u")]
        assert held(run, spark, after=1) == [(2, 3, "u"), (3, 4, "u")]
        start = instant("2024-05-01T12:00:50Z")
        assert held(run, spark, start=start) == [(2, 3, "u")]
        history = EventHistory(run.store)
        assert len(history.past(run.streams["orders"], start=start).files) == 1
        assert history.has("orders")
        row = history.past(run.streams["orders"]).frame(spark, ["tags", "price", "at"]).first()
        assert row["tags"] == ["a", None]
        assert str(row["price"]) == "1.50"
        assert row["__at"] == instant("2024-05-01T12:00:01Z")
    finally:
        run.stop()


def test_what_each_epoch_decided_by_time_is_remembered(root, spark):
    app = make(root)
    put(root, "a", event(1, 30))
    with pytest.warns(DeprecationWarning, match="'master_at' is called 'history_at' now"):
        run = started(app, root, spark, master_at=root / "elsewhere")
    try:
        run.catch_up()
        assert list((root / "elsewhere").rglob("*.parquet"))
        with pytest.warns(DeprecationWarning, match=r"run.master is called run\.history now"):
            assert run.master is run.history
        put(root, "b", event(2, 50))
        run.catch_up()
        epochs = run.store.query('SELECT "commit", stream, epoch FROM __epochs ORDER BY 1').rows()
        assert epochs == [(1, "orders", 0), (2, "orders", 1)]
        first, second = instant("2024-05-01T12:00:20Z"), instant("2024-05-01T12:00:40Z")
        times = run.store.times_of("by_user", ["orders"], 0, 2)
        assert times.select("before", "after").rows() == [(BEGINNING, first), (first, second)]
    finally:
        run.stop()


def test_a_stream_that_is_kept_only_later_says_since_when(root, spark):
    put(root, "a", event(1, 1))
    run = started(make(root, keep="none"), root, spark)
    run.catch_up()
    assert EventHistory(run.store).since("orders") is None
    run.stop()
    put(root, "b", event(2, 2))
    run = started(make(root), root, spark)
    try:
        run.catch_up()
        assert EventHistory(run.store).since("orders") == 1
        assert held(run, spark) == [(2, 2, "u")]
    finally:
        run.stop()


def counted(run: Run) -> dict[str, int]:
    return dict(run.store.query("SELECT user, sum(n) FROM by_user GROUP BY 1 ORDER BY 1").rows())


def test_an_erasure_is_honoured_by_spark_too(root, spark):
    put(root, "a", event(1, 1, "x"), event(2, 2, "y"))
    run = started(make(root), root, spark)
    try:
        run.catch_up()
        run.erase("orders", "user = 'x'", "asked by letter")
        put(root, "b", event(3, 3, "x"))
        run.catch_up()
        assert held(run, spark) == [(1, 2, "y"), (2, 3, "x")]
        before = held(run, spark)
        assert run.keeper.compact().erased == 1
        assert held(run, spark) == before
        frame = EventHistory(run.store).past(run.streams["orders"]).frame(spark, ["price"])
        assert frame.columns == ["price", "__commit", "__at", "__partition", "__offset"]
    finally:
        run.stop()


def test_dead_letters_come_back_once_after_a_fix(root, spark):
    app = make(root, id="id")
    put(
        root, "a",
        event(1, 1),
        {**event(2, 2, "raw"), "price": "cheap"},  # does not fit, and never will
        '{"id": 3, "user": "raw", "price": "2.50", "at": 1714564803',  # no JSON at all
        {**event(4, 4), "at": "2024-05-02T13:30:00Z"},  # too far ahead, for now
    )  # fmt: skip
    now = [instant("2024-05-01T13:00:00Z")]
    run = app.start(root / "state", spark=spark, tick=3600.0, clock=lambda: now[0])
    try:
        run.catch_up()
        assert counted(run) == {"u": 1}
        assert held(run, spark) == [(1, 1, "u")]
        assert len(dead_letters(run.history, "orders")) == 3
        again = run.retry_dead_letters("orders")
        assert (again.rows, again.dead) == (3, 3)
        assert len(dead_letters(run.history, "orders")) == 3
        now[0] = instant("2024-05-02T13:00:00Z")
        again = run.retry_dead_letters("orders", "reason LIKE '%ahead%'")
        assert (again.rows, again.dead) == (1, 0)
        assert held(run, spark)[-1] == (3, 4, "u")
        assert counted(run) == {"u": 2}
        assert run.retry_dead_letters("orders", "reason LIKE '%ahead%'").rows == 0
        left = dead_letters(run.history, "orders")
        assert left["commit"].to_list() == [2, 2]
        assert run.store.counters()["orders.retried"] == 4
        assert run.store.progress("dead-letter:orders").epoch == 1
    finally:
        run.stop()


def test_a_wider_schema_lets_dead_letters_in_at_their_old_places(root, spark):
    def app_with(kind: str) -> App:
        app = App("test")
        stream = app.stream(
            "orders", ps.files(root / "in"), schema=f"id {kind}, user string, at timestamp", event_time="at",
            watermark=ps.bounded("10 seconds", idle=None),
        )  # fmt: skip
        by_user = stream.group_by("user").window(ps.fixed("10 seconds")).agg(n=ps.count())
        app.view("by_user", by_user, backfill=False)
        return app

    put(
        root,
        "a",
        {"id": 1, "user": "u", "at": "2024-05-01T12:00:01Z"},
        {"id": 1 << 40, "user": "w", "at": "2024-05-01T12:00:02Z"},
    )
    run = started(app_with("int"), root, spark)
    run.catch_up()
    (place,) = dead_letters(run.history, "orders").select("partition", "offset").rows()
    run.stop()
    store = SqliteStore.open(root / "state")
    store.lock()
    store.drop("by_user")
    store.close()
    run = started(app_with("bigint"), root, spark)
    try:
        assert run.retry_dead_letters("orders").dead == 0
        assert counted(run) == {"w": 1}
        past = EventHistory(run.store).past(run.streams["orders"])
        rows = past.frame(spark, ["id"]).collect()  # the older file has narrower numbers
        assert sorted(row["id"] for row in rows) == [1, 1 << 40]
        assert next((row["__partition"], row["__offset"]) for row in rows if row["id"] > 1) == place
    finally:
        run.stop()


def test_what_fails_in_catalyst_and_runs_twice_is_kept_once(root, spark):
    app = make(root)
    stream = app.streams["orders"]
    app.view("odd", stream.group_by(key="element_at(slice(tags, 1, 9), int(user))").agg(n=ps.count()))
    put(root, "a", event(1, 1, "1"), event(2, 2, "0"), event(3, 3, "2"))
    run = started(app, root, spark)
    try:
        run.catch_up()
        assert held(run, spark) == [(1, 1, "1"), (1, 2, "0"), (1, 3, "2")]
        dead = run.store.query("SELECT view FROM __refused WHERE kind = 'dead'").rows()
        assert dead == [("odd",)]
        assert len(dead_letters(run.history, "orders")) == 0  # the stream has accepted it
    finally:
        run.stop()
