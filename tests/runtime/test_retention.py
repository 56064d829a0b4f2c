"""What does not stay for ever: finished windows, old commits, refused rows, a dropped view's panes. And what does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import penstock as ps
from penstock.app import App
from penstock.errors import DefinitionError
from penstock.model.change import changes
from penstock.runtime.run import Run
from penstock.store import Keep
from penstock.store.present import shown
from tests.outbox import panes
from tests.runtime.test_run import Clock, rows

SCHEMA = "page string, at timestamp"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def put(root: Path, *seconds: int, page: str = "/a") -> None:
    """One more file: visits to a page at these seconds of noon's hour."""
    name = f"{len(list((root / 'in').iterdir())):04}"
    lines = [{"page": page, "at": f"2024-05-01T12:{second // 60:02}:{second % 60:02}Z"} for second in seconds]
    (root / f".{name}").write_text("".join(json.dumps(line) + "\n" for line in lines) + ("{\n" if not seconds else ""))
    (root / f".{name}").rename(root / "in" / f"{name}.json")


def visits(root: Path) -> tuple[App, ps.Stream]:
    app = App("test")
    stream = app.stream(
        "visits", ps.files(root / "in"), schema=SCHEMA, event_time="at", watermark=ps.bounded("0 seconds", idle=None)
    )
    return app, stream


def by_page(stream: ps.Stream) -> ps.View:
    return stream.group_by("page").window(ps.fixed("10 seconds")).agg(n=ps.count())


def started(root: Path, spark, view: ps.View | None = None, app: App | None = None, **options: object) -> Run:
    if app is None:
        app, stream = visits(root)
        app.view("by_page", by_page(stream) if view is None else view)
    return app.start(root / "state", spark=spark, tick=3600.0, clock=Clock(), **options)


def read(run: Run, root: Path, *files: tuple[int, ...]) -> None:
    for seconds in files:
        put(root, *seconds)
        run.catch_up()


STARTS = "SELECT substr(window_start, 15) FROM by_page ORDER BY 1"


def test_finished_windows_stay_as_long_as_the_view_says(root, spark):
    app, stream = visits(root)
    app.view("by_page", by_page(stream).retain("1 minute"))
    app.view("kept", by_page(stream))
    run = started(root, spark, app=app)
    try:
        read(run, root, (0,), (30,), (75,))
        assert [start for (start,) in rows(run, STARTS)] == ["00:30", "01:10"], "the first one ended 65 seconds ago"
        read(run, root, (101,))
        assert [start for (start,) in rows(run, STARTS)] == ["01:10", "01:40"]
        read(run, root, (0,))
        counters = run.store.counters()
        assert counters["visits.late"] == 2, "what comes for a window that is gone is late, as ever"
        assert counters["visits.late_events"] == 1, "one event, late for two views"
        assert len(rows(run, "SELECT 1 FROM kept")) == 4
    finally:
        run.stop()
    run = started(root, spark, by_page(visits(root)[1]).retain("1 hour"))  # another retention is the same state
    try:
        read(run, root, (200,), (300,))
        assert len(rows(run, STARTS)) == 4
    finally:
        run.stop()


def test_retention_is_part_of_the_definition_but_not_of_the_state(root):
    _, stream = visits(root)
    view = by_page(stream)
    other = view.retain("3 days")
    assert repr(other).endswith(".retain('3 days')")
    assert other.fingerprint() == view.fingerprint()
    assert [(change.what, change.allowed) for change in changes(view, other)] == [("retention", True)]
    assert "finished windows stay for 3 days after their end" in other.explain()
    assert "finished windows are kept permanently" in view.explain()
    with pytest.raises(DefinitionError, match="no end in event time"):
        stream.group_by("page").window(ps.count_window(3)).agg(n=ps.count()).retain("1 day")


def test_a_view_without_windows_forgets_keys_and_takes_no_events_older_than_its_retention(root, spark):
    app, stream = visits(root)
    app.view("by_page", stream.group_by("page").agg(n=ps.count()).retain("1 minute"))
    pages = "SELECT page, n FROM by_page ORDER BY 1"
    run = started(root, spark, app=app)
    try:
        put(root, 0, 10, page="/a")
        put(root, 50, page="/b")
        run.catch_up()
        assert rows(run, pages) == [("/a", 2), ("/b", 1)]
        put(root, 71, page="/b")
        run.catch_up()
        assert rows(run, pages) == [("/b", 2)]
        put(root, 5, 8, page="/a")
        run.catch_up()
        assert rows(run, pages) == [("/b", 2)]
        assert run.store.counters()["visits.late"] == 2
        refused = "SELECT kind, view, reason FROM __refused"
        reason = "older than the view's retention, and its key does not exist"
        assert rows(run, refused) == [("late", "by_page", reason)] * 2
        put(root, 72, page="/a")
        run.catch_up()
        assert rows(run, pages) == [("/a", 1), ("/b", 2)]
    finally:
        run.stop()


def test_windows_that_were_closed_stay_closed_when_more_lateness_is_allowed(root, spark):
    def two(lateness: str) -> App:  # two of one kind take their steps together
        app, stream = visits(root)
        app.view("by_page", by_page(stream).allow_late(lateness))
        app.view("all_pages", stream.group_by().window(ps.fixed("10 seconds")).agg(n=ps.count()).allow_late(lateness))
        app.view("same", by_page(stream).allow_late(lateness))
        return app

    run = started(root, spark, app=two("0 seconds"))
    read(run, root, (5,), (15,), (38,))
    run.stop()
    run = started(root, spark, app=two("1 minute"))
    try:
        read(run, root, (6, 16, 33), (45,))
        counts = "SELECT substr(window_start, 15), n, final FROM by_page ORDER BY 1"
        assert rows(run, counts) == [("00:00", 1, 1), ("00:10", 1, 1), ("00:30", 2, 0), ("00:40", 1, 0)]
        assert run.store.counters()["visits.late"] == 6
        read(run, root, (34,), (101,))
        assert rows(run, counts)[2:] == [("00:30", 3, 1), ("00:40", 1, 0), ("01:40", 1, 0)]
        for view in ("all_pages", "same"):
            assert rows(run, counts.replace("by_page", view)) == rows(run, counts)
    finally:
        run.stop()


def test_old_commits_and_refused_rows_are_forgotten(root, spark):
    app, stream = visits(root)
    app.view("by_page", by_page(stream))
    app.sink("by_page", ps.to_jsonl(root / "panes"))
    run = started(root, spark, app=app, keep=Keep(commits=3, refused=2, every=2))
    read(run, root, *[(second,) for second in range(0, 80, 20)], (), (), ())
    assert [number for (number,) in rows(run, 'SELECT "number" FROM __commits')] == [4, 5, 6, 7]
    assert [number for (number,) in rows(run, 'SELECT "commit" FROM __refused')] == [6, 7]
    assert run.store.counters()["visits.dead"] == 3
    run.stop()
    app, stream = visits(root)
    app.view("by_page", by_page(stream))
    app.sink("by_page", ps.to_jsonl(root / "panes"))
    run = started(root, spark, app=app)  # the sink knows the store again, though its first commit is forgotten
    read(run, root, (100,))
    run.stop()
    assert not run.delivery.failures
    assert len([line for file in (root / "panes").glob("*.jsonl") for line in file.open()]) == 4
    with pytest.raises(DefinitionError, match="cannot keep"):
        Keep(commits=0)


def test_a_dropped_view_takes_its_panes_along_and_its_name_can_be_used_again(root, spark):
    app, stream = visits(root)
    app.view("by_page", by_page(stream))
    run = started(root, spark, app=app)
    try:
        read(run, root, (0,), (30,))
        assert panes(run.store).height == 1
        run.drop_view("by_page")
        assert panes(run.store).height == 0
        other = stream.group_by("page").window(ps.fixed("10 seconds")).agg(pages=ps.count_distinct("page"))
        run.add_view("by_page", other)
        got: list[dict] = []
        run.delivery.add("taken", "by_page", other, ps.to_function(got.extend))
        read(run, root, (40,), (60,))
        run.delivery.drain()
        assert [row["pages"] for row in got] == [1]
    finally:
        run.stop()


def test_times_in_years_that_no_calendar_knows_are_shown_all_the_same():
    import polars as pl

    far = pl.Series("at", [2**63 - 1, -(2**63) + 1, 0], dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))
    assert shown(far).to_list() == [
        "+294247-01-10 04:00:54.775807",
        "-290308-12-21 19:59:05.224193",
        "1970-01-01 00:00:00",
    ]
    days = pl.Series("day", [2**31 - 1, -(2**31) + 1, -1], dtype=pl.Int32).cast(pl.Date)
    assert shown(days).to_list() == ["+5881580-07-11", "-5877641-06-24", "1969-12-31"]
