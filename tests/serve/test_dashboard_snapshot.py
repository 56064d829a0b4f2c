"""What the dashboard shows, without a browser: snapshots, the shapes of charts, the graph, and its door."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from penstock.model.time import SECOND
from penstock.serve.askers import Askers, Select
from penstock.serve.dashboard import graph, overview, shapes
from penstock.serve.dashboard.board import Board
from penstock.serve.dashboard.page import state_text
from penstock.serve.dashboard.palette import Palette
from penstock.serve.dashboard.read import SnapshotReader
from penstock.serve.dashboard.refused import _EXPORT, lines
from penstock.serve.dashboard.snapshot import CommitNow, Snapshot, StreamNow, ViewNow, folded
from penstock.serve.dashboard.sql import example
from penstock.serve.server import Server
from penstock.serve.tokens import Tokens
from penstock.serve.views import Catalog
from tests.browser.live import LiveApp
from tests.dataflow.test_graph import shop
from tests.serve.conftest import NOON

#: A clock that has passed all windows.
NOW = NOON + 86_400 * SECOND


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveApp]:
    made = LiveApp(tmp_path / "state")
    for _ in range(3):
        made.commit()
    yield made
    made.stop()


def read(directory: Path, *watched: str, between: Callable[[], object] | None = None) -> Snapshot:
    """A snapshot; with something that happens before it, the second one."""

    async def go() -> Snapshot:
        askers = Askers(directory, processes=1, largest=32 << 20, waiting=10)
        reader = SnapshotReader(askers, Catalog(askers))
        try:
            found = await reader.read(watched)
            if between is not None:
                between()
                found = await reader.read(watched)
            return found
        finally:
            await askers.close()

    return asyncio.run(go())


def test_a_snapshot_has_all_that_the_store_knows(live: LiveApp):
    now = read(live.directory)
    rows = live.store.query("SELECT sum(rows) FROM __commits").item()
    assert now.commit == 3
    assert now.events == rows
    assert now.counted("dead") == 3
    assert list(now.streams) == ["posts"]
    assert now.streams["posts"].log == "http('posts')"
    assert set(now.views) == {"trending", "by_country", "top_tags", "totals"}
    assert now.views["trending"].streams == ["posts"]
    assert {name: sink.view for name, sink in now.sinks.items()} == {
        "totals_alerts": "totals", "trending_jsonl": "trending",
    }  # fmt: skip
    assert now.sinks["trending_jsonl"].behind == 0
    assert [commit.number for commit in now.commits] == [1, 2, 3]
    assert set(now.commits[0].parts) == {"reduce", "merge"}
    assert all(commit.completeness is not None and commit.completeness > 90 for commit in now.commits)
    assert [mark.sources for mark in now.marks] == ["posts"] * 3
    assert {row["kind"] for row in now.refused} >= {"dead"}
    assert {one["view"] for one in now.generations} == set(now.views)
    assert [one["view"] for one in now.audits] == ["totals", "trending"]
    assert now.files[0]["rows"] == rows
    assert not now.tables
    assert [delay.stream for delay in now.delays] == ["posts"] * 3
    assert set(now.freshness.views) == set(now.views)
    assert set(now.freshness.sinks) == {"trending_jsonl"}
    assert now.freshness.views["totals"].events == rows
    assert 0.12 < now.freshness.views["totals"].median < now.freshness.sinks["trending_jsonl"].median < 1


def test_only_views_that_somebody_looks_at_are_read(live: LiveApp):
    now = read(live.directory, "top_tags", "by_country", "gone")
    assert set(now.tables) == {"top_tags", "by_country"}
    table = now.tables["top_tags"]
    counts = dict(live.store.query("SELECT tag, posts FROM top_tags").iter_rows())
    assert {row["tag"]: row["posts"] for row in table.rows} == counts
    assert [row["posts"] for row in table.rows] == sorted(counts.values(), reverse=True)
    assert table.pane is not None
    assert table.pane.timing in ("early", "on_time", "late")


def test_rates_are_what_has_changed_between_two_snapshots(live: LiveApp):
    assert read(live.directory).streams["posts"].rate == 0
    later = read(live.directory, between=live.commit)
    assert later.streams["posts"].rate > 0
    assert later.views["totals"].rate > 0
    nodes, edges = graph.parts(later)
    assert {kind for kind, _, _ in nodes.values()} == {"log", "stream", "view", "sink"}
    assert ("log posts", "stream posts", later.streams["posts"].rate) in edges
    assert {(start, end) for start, end, _ in edges} >= {
        ("stream posts", "view trending"), ("view trending", "sink trending_jsonl"),
    }  # fmt: skip
    assert graph.options(later, upright=True)["series"][0]["data"]


def test_the_graph_is_the_one_that_the_app_has_noted(live: LiveApp):
    app = shop()
    live.store.note_graph(app.graph().to_json())
    now = read(live.directory)
    assert now.graph == app.graph()
    nodes, edges = graph.parts(now)
    assert {kind for kind, _, _ in nodes.values()} == {
        "log", "stream", "table", "join", "processor", "pattern", "derived", "view", "sink",
    }  # fmt: skip
    pairs = {(start, end) for start, end, _ in edges}
    assert pairs >= {
        ("log orders", "stream orders"), ("stream orders", "stream paid"), ("stream payments", "stream paid"),
        ("stream paid", "stream flagged"), ("stream flagged", "view by_item"), ("table users", "view by_tier"),
        ("view by_tier", "table tiers"), ("stream edges", "sink raw"),
    }  # fmt: skip
    assert ("log paid", "stream paid") not in pairs
    drawn = graph.options(now, upright=False)["series"][0]
    places = {one["id"]: one["value"][0] for one in drawn["data"]}
    assert places["stream orders"] < places["stream paid"] < places["stream flagged"] < places["view by_item"]
    dashed = {(one["source"], one["target"]) for one in drawn["edges"] if one["lineStyle"]["type"] == "dashed"}
    assert dashed == {("table users", "view by_tier"), ("view by_tier", "table tiers")}
    assert live.store.catalog() == [entry for entry in live.store.catalog() if entry.kind != "graph"]


def test_a_store_that_never_saw_an_audit_is_shown_too(filled):
    now = read(filled.directory, "trending", "totals")
    assert now.audits == []
    assert now.commit == 1
    assert len(now.tables["trending"].rows) == 5


def view(keys: list[str], windows: bool, **columns: str) -> ViewNow:
    bounds = {"window_start": "timestamp", "window_end": "timestamp"}
    named = {**dict.fromkeys(keys, "string"), **bounds, **columns, "final": "boolean"}
    return ViewNow("v", "", named, keys, windows, [], None, False, 0.0)


def rows(keys: int, windows: int = 3) -> list[dict[str, object]]:
    return [
        {"k": f"k{key}", "window_start": f"2024-05-01T12:0{w}:00Z", "window_end": "", "n": key * 10 + w, "final": False}
        for key in range(keys)
        for w in range(windows)
    ]


def test_the_chart_fits_the_shape():
    assert shapes.shape(view(["k"], True, n="bigint"), rows(3)) == shapes.LINES
    assert shapes.shape(view(["k"], True, n="bigint"), rows(40)) == shapes.HEAT
    assert shapes.shape(view(["k", "l"], True, n="bigint"), []) == shapes.HEAT
    assert shapes.shape(view(["k"], False, n="bigint"), rows(3)) == shapes.BARS
    assert shapes.shape(view(["k"], True, n="array<string>"), rows(3)) == shapes.NONE


def test_charts_hold_the_numbers_of_the_rows():
    lines = shapes.chart(view(["k"], True, n="bigint"), rows(2), "n", NOW)
    assert lines["keys"] == ["k1", "k0"]
    assert list(lines["values"]["k1"].values()) == [10, 11, 12]
    heat = shapes.options(shapes.chart(view(["k"], True, n="bigint"), rows(40), "n", NOW), "n", Palette())
    cells = heat["series"][0]["data"]
    assert heat["yAxis"]["data"][0] == "k39"
    assert cells[:3] == [[0, 0, 390], [1, 0, 391], [2, 0, 392]]
    bars = shapes.chart(view(["k"], False, n="bigint"), rows(3, 1), "n", NOW)
    assert (bars["keys"], bars["values"]) == (["k2", "k1", "k0"], [20, 10, 0])
    odd = [{"k": None, "n": "NaN"}, {"k": "a", "n": "12.50"}]
    assert shapes.chart(view(["k"], False, n="decimal(30,2)"), odd, "n", NOW)["values"] == [12.5, None]


def test_an_epoch_without_events_says_nothing_of_completeness():
    assert CommitNow(1, "epoch", "s", 1, 0, 0, 0, 0, {}).completeness is None
    assert CommitNow(1, "epoch", "s", 1, 0, 10, 0, 25, {}).completeness == 0.0
    assert CommitNow(1, "epoch", "s", 1, 0, 10, 0, None, {}).completeness is None


def test_the_completeness_of_a_processor_is_that_of_the_events_that_it_reads():
    """It read 100 events, refused 10 of them as late, and gave out two rows, of which a view took one."""
    commit = CommitNow(1, "epoch", "sessions", 1, 0, 12, 0, 11, {}, inputs=100, late_inputs=10)
    assert commit.completeness == pytest.approx(90.0 * 0.5)
    silent = CommitNow(1, "epoch", "sessions", 1, 0, 10, 0, 10, {}, inputs=100, late_inputs=10)
    assert silent.completeness == pytest.approx(90.0)


def stream(name: str, counters: dict[str, int] | None = None, ahead: int | None = None) -> StreamNow:
    mark = None if ahead is None else time.time_ns() // 1000 + ahead * SECOND
    return StreamNow(name, "", counters or {}, mark, None, 0.0)


def test_a_watermark_ahead_of_the_clock_is_said_to_be_ahead():
    assert overview.lag([stream("s", ahead=3 * 86_400)]) == ("2 d 23 h", "ahead of the clock")
    assert overview.lag([stream("s", ahead=-60)]) == ("1 min 0 s", "behind the clock")
    assert overview.lag([stream("s")]) == ("–", "no watermark yet")


def test_of_several_streams_the_one_that_is_furthest_behind_is_named():
    value, note = overview.lag([stream("a", ahead=-60), stream("b", ahead=-3600), stream("c")])
    assert value == "1 h 0 min"
    assert note.startswith("'b', behind the clock")


def test_the_completeness_of_a_stream_counts_events_and_what_came_to_an_operator():
    assert stream("s").completeness is None
    assert stream("s", {"events": 200, "late": 60, "late_events": 20}).completeness == pytest.approx(90.0)
    counters = {"inputs": 100, "late_inputs": 10, "events": 2, "late_events": 11, "late": 12}
    assert stream("sessions", counters).completeness == pytest.approx(90.0 * 0.5)
    assert stream("sessions", {"inputs": 100, "late_inputs": 10, "late_events": 10}).completeness == pytest.approx(90.0)


def test_ticks_one_after_the_other_are_one_row():
    kinds = ["epoch", "tick", "tick", "tick", "epoch", "tick", "swap", "tick"]
    commits = [CommitNow(n, kind, "", None, n, 0, 2, None, {}) for n, kind in enumerate(kinds, 1)]
    rows = [(commit.number, commit.kind, commit.panes, count) for commit, count in folded(commits)]
    assert rows == [(1, "epoch", 2, 1), (4, "tick", 6, 3), (5, "epoch", 2, 1), (6, "tick", 2, 1), (7, "swap", 2, 1),
                    (8, "tick", 2, 1)]  # fmt: skip


def test_epochs_have_the_colour_of_their_stream():
    epochs = [CommitNow(n, "epoch", name, 0, n, 10 * n, 0, n, {}) for n, name in enumerate(["b", "a", "b"], 1)]
    palette = Palette()
    palette.learn(["a", "b"])
    for some in (epochs, epochs[:1]):  # whatever else is there, 'b' keeps its colour
        drawn = {one["name"]: one for one in overview.events_by_epoch(some, palette)["series"]}
        assert drawn["b"]["color"] == palette.color("b") != palette.color("a")
    assert drawn["b"]["data"] == [10]
    assert overview.events_by_epoch(epochs, palette)["yAxis"]["minInterval"] == 1


def test_windows_that_are_not_finished_are_drawn_so():
    windows = [
        {"k": "a", "window_start": f"2024-05-01T12:0{n}:00Z", "window_end": f"2024-05-01T12:0{n + 1}:00Z", "n": n}
        for n in range(3)
    ]
    timed = replace(view(["k"], True, n="bigint"), watermark=NOON + 120 * SECOND + 1)
    drawn = shapes.chart(timed, windows, "n", NOW)
    assert drawn["open"] == {"2024-05-01T12:02:00Z"}
    done, going_on = shapes.options(drawn, "n", Palette(), whole=True)["series"]
    assert [value for _, value in done["data"]] == [0, 1]
    assert [value for _, value in going_on["data"]] == [1, 2]  # from the last that is finished
    assert (done["name"], done["color"]) == (going_on["name"], going_on["color"])
    assert going_on["lineStyle"] == {"type": "dashed"}
    without = shapes.chart(view(["k"], True, n="bigint"), windows, "n", NOON)  # then the clock says it
    assert len(without["open"]) == 3
    many = [{**window, "k": f"k{n}"} for n in range(20) for window in windows]
    heat = shapes.options(shapes.chart(timed, many, "n", NOW), "n", Palette())
    assert [label.endswith("…") for label in heat["xAxis"]["data"]] == [False, False, True]
    assert [isinstance(cell, dict) for cell in heat["series"][0]["data"][:3]] == [False, False, True]


def test_a_view_without_windows_has_no_columns_for_them():
    assert list(view(["k"], False, n="bigint").shown_columns) == ["k", "n"]
    assert list(view(["k"], True, n="bigint").shown_columns) == ["k", "window_start", "window_end", "n", "final"]


def test_a_page_says_in_words_whether_the_app_runs(live: LiveApp):
    now = read(live.directory)
    assert now.app == "trending"
    text = state_text(replace(now, committed=NOON), NOON // SECOND + 5)
    assert text == "running · commit 3, 5.0 s ago"
    assert state_text(replace(now, committed=None, stopped="stopped"), 0) == "stopped · commit 3"


def test_sql_begins_with_a_question_that_has_an_answer(live: LiveApp):
    views = read(live.directory).views
    assert example(views.values()).startswith("SELECT country, window_start, posts, likes\nFROM by_country\nORDER BY")
    odd = ViewNow("order", "", {"per cent": "string", "window_start": "timestamp", "window_end": "timestamp",
                                "final": "boolean"}, ["per cent"], False, [], None, False, 0.0)  # fmt: skip
    assert example([odd]) == "SELECT `per cent`\nFROM `order`\nLIMIT 10"


def test_every_view_gives_an_example_that_runs(live: LiveApp):
    texts = [example([one]) for one in read(live.directory).views.values()]

    async def go() -> list[int]:
        askers = Askers(live.directory, processes=1, largest=32 << 20, waiting=10)
        try:
            answers = [await askers.select(Select(text, {}, 10), 30.0) for text in texts]
            return [len(json.loads(answer.body)["rows"]) for answer in answers]
        finally:
            await askers.close()

    assert all(asyncio.run(go()))


def test_refused_rows_are_exported_as_lines_of_json(live: LiveApp):
    found = live.store.query(_EXPORT, ["dead"]).rows()
    written = [json.loads(line) for line in lines([list(row) for row in found]).splitlines()]
    assert len(written) == 3
    assert {line["kind"] for line in written} == {"dead"}
    assert written[0]["row"]["tag"] == "<b>rain</b>"
    late = ["late", "s", "v", 1, 0, 5, NOON, "too late", "a,b"]
    assert json.loads(lines([late]))["at"] == "2024-05-01T12:00:00Z"
    assert json.loads(lines([late]))["row"] == "a,b"


def test_all_pages_share_one_refresh_and_none_is_read_without_them(live: LiveApp):
    drawn: list[int] = []

    class Reader(SnapshotReader):
        async def read(self, watched=()):  # type: ignore[no-untyped-def]
            drawn.append(len(watched))
            return Snapshot(commit=len(drawn))

    async def go() -> tuple[list[int], list[int]]:
        board = Board(Reader.__new__(Reader))
        await asyncio.sleep(0.1)
        assert not drawn
        first: list[int] = []
        second: list[int] = []
        one, two = (lambda s: first.append(s.commit)), (lambda s: second.append(s.commit))
        board.open(one)
        board.open(two)
        while len(first) < 2:
            await asyncio.sleep(0.01)
        board.close(one)
        board.close(two)
        await board.stop()
        return first, second

    first, second = asyncio.run(go())
    assert first[-1] == second[-1] == len(drawn)


def test_pages_have_a_policy_of_their_own_and_paths_of_the_api_stay_as_they_are(serving: Callable[..., Server]):
    with httpx.Client(base_url=serving().url, timeout=60) as client:
        page = client.get("/")
        assert page.status_code == 200
        assert "default-src 'self'" in page.headers["content-security-policy"]
        assert "http://" not in page.text.replace("http://www.w3.org", "")
        assert "https://" not in page.text
        assert page.headers["x-frame-options"] == "DENY"
        assert client.get("/api/v1/nothing").json() == {"error": "Not Found"}
        assert client.post("/health").status_code == 405
        assert client.get("/elsewhere").headers["content-type"] == "application/json"
        assert client.get("/login").status_code == 404


def test_where_tokens_are_needed_a_page_asks_for_one(serving: Callable[..., Server], filled):
    tokens = Tokens(filled.directory)
    secret, writer = tokens.create(["read"], "reader"), tokens.create(["write"], "writer")
    with httpx.Client(base_url=serving().url, timeout=60) as client:
        assert client.get("/").headers["location"] == "/login"
        assert client.get("/_nicegui/x").status_code == 401
        assert "token create" in client.get("/login").text
        for wrong in ("", "ps_no", writer):
            assert client.post("/login", data={"token": wrong}).status_code == 401
        there = client.post("/login", data={"token": secret}, headers={"Origin": "http://evil.example"})
        assert there.status_code == 403
        done = client.post("/login", data={"token": secret})
        assert (done.status_code, done.headers["location"]) == (303, "/")
        assert "HttpOnly" in done.headers["set-cookie"]
        assert "SameSite=strict" in done.headers["set-cookie"]
        assert client.get("/").status_code == 200
        assert secret not in client.get("/").text
        assert client.get("/api/v1/views").status_code == 401  # the cookie is for pages only
        tokens.remove("reader")
        assert client.get("/").headers["location"] == "/login"


def test_secrets_of_a_log_do_not_reach_the_page():
    from penstock.serve.dashboard.parts import streams_of

    text = "ps.stream('s', log=ps.kafka('topic', password='hush')).group_by().agg(n=ps.count())"
    assert streams_of(text) == {"s": "kafka('topic')"}
    assert json.dumps(streams_of("ps.stream('s', log=<odd>)")) == '{"s": ""}'
