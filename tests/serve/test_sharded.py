"""Views in segments are served like those in tables: lookups, pages, SQL, subscriptions, the dashboard and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from penstock.serve import views
from penstock.serve.askers import LAST, Askers
from penstock.serve.dashboard.read import SnapshotReader
from penstock.serve.errors import Answered
from penstock.serve.server import Server
from penstock.serve.views import Catalog
from penstock.store.segment_lookup import SegmentQuestion
from tests.serve import test_lookup, test_subscribe
from tests.serve.conftest import VIEWS, Filled

VIEW, QUERY = "/api/v1/views/trending", "/api/v1/query"


@pytest.fixture
def shards() -> int:
    return 4


def test_rows_are_found_by_key_window_and_null(client: httpx.Client):
    test_lookup.test_a_key_has_its_rows_newest_first(client)
    test_lookup.test_several_values_of_a_key_mean_any_of_them(client)
    test_lookup.test_a_null_key_is_found_by_its_name(client)
    test_lookup.test_a_window_is_found_by_its_start_in_any_zone(client)
    test_lookup.test_a_range_of_windows_leaves_out_its_end(client)
    test_lookup.test_an_answer_tells_types_and_the_commit(client)
    test_lookup.test_csv_has_a_line_of_names_and_no_formulas(client)
    test_lookup.test_arrow_has_the_types_of_the_view(client)
    test_lookup.test_a_view_without_windows_has_one_row(client)


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_pages_hold_every_row_once(client: httpx.Client, filled: Filled, order: str):
    filled.commit(*((f"tag {number}", number, number % 30) for number in range(100)))
    everything = client.get(VIEW, params={"order": order, "limit": 1000}).json()["rows"]
    pages, cursor = [], None
    while True:
        more = {} if cursor is None else {"cursor": cursor}
        answer = client.get(VIEW, params={"limit": 7, "order": order, **more}).json()
        pages += answer["rows"]
        cursor = answer["next"]
        if cursor is None:
            break
    assert pages == everything
    assert len(pages) == 105


def test_pages_hold_every_row_once_also_while_rows_come(client: httpx.Client, filled: Filled):
    test_lookup.test_pages_hold_every_row_once_also_while_rows_come(client, filled)


def test_a_cursor_of_a_table_is_refused(client: httpx.Client):
    cursor = "WyJuZXdlc3QiLCAxLCAxLCAiMDEiXQ"  # ["newest", 1, 1, "01"]
    assert client.get(VIEW, params={"cursor": cursor}).status_code == 422


def test_a_select_reads_segments(client: httpx.Client):
    sql = "SELECT tag, sum(posts) AS n FROM trending GROUP BY tag ORDER BY n DESC, tag LIMIT 2"
    answer = client.post(QUERY, json={"sql": sql}).json()
    assert answer["rows"] == [{"tag": "x", "n": 3}, {"tag": None, "n": 1}]


def test_a_snapshot_comes_before_the_panes(client: httpx.Client):
    test_subscribe.test_a_snapshot_comes_before_the_panes(client)


def test_a_view_that_is_moved_into_segments_is_found_at_once(tmp_path, serving: Callable[..., Server], filled: Filled):
    other = Filled(tmp_path / "other")
    other.commit(("x", 1, 0))
    with Server(other.directory, serving().settings) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        assert len(client.get(VIEW).json()["rows"]) == 1
        for name in VIEWS:
            other.store.shard(name, 2)
        assert len(client.get(VIEW).json()["rows"]) == 1
    other.close()


def test_metrics_tell_what_segments_take(client: httpx.Client):
    lines = client.get("/metrics").text.splitlines()
    numbers = dict(line.rsplit(" ", 1) for line in lines if line.startswith("penstock_view_segment"))
    assert float(numbers['penstock_view_segment_rows{view="trending"}']) == 5
    assert float(numbers['penstock_view_segments{view="trending"}']) >= 1
    assert float(numbers['penstock_view_segment_bytes{view="trending"}']) > 0


def test_the_dashboard_shows_rows_of_segments(filled: Filled):
    async def read() -> Any:
        askers = Askers(filled.directory, processes=1, largest=1 << 20, waiting=10)
        try:
            return await SnapshotReader(askers, Catalog(askers)).read(["trending", "totals"])
        finally:
            await askers.close()

    tables = asyncio.run(read()).tables
    assert len(tables["trending"].rows) == 5
    assert tables["totals"].rows[0]["posts"] == 6


def test_a_missing_file_is_named(client: httpx.Client, filled: Filled):
    view = filled.store.sharded("trending")
    assert view is not None
    for segment in view.segments:
        (filled.directory / "state" / segment.path).unlink(missing_ok=True)
    answer = client.get(VIEW)
    assert answer.status_code == 503
    assert "is missing" in answer.json()["error"]
    assert view.segments[0].path in answer.json()["error"]


def test_a_whole_key_is_looked_up_without_another_process(filled: Filled) -> None:
    async def run() -> None:
        askers = Askers(filled.directory, processes=0, largest=1 << 20, waiting=1)
        try:
            found, last = await askers.ask([SegmentQuestion("trending", {"tag": ["y"]}), LAST], 0.05)
            assert [row[0] for row in found.rows] == ["y"]
            assert last.rows == [[1]]
            with pytest.raises(Answered, match="no answer within"):
                await askers.ask([SegmentQuestion("trending", {"tag": ["x", "y"]}), LAST], 0.05)
        finally:
            await askers.close()

    asyncio.run(run())


def test_requests_go_on_while_the_catalog_is_read_again(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        askers = Askers(filled.directory, processes=1, largest=1 << 20, waiting=10)
        catalog, clock = Catalog(askers), [100.0]
        monkeypatch.setattr(views, "time", SimpleNamespace(monotonic=lambda: clock[0]))
        try:
            first = await catalog.known()
            clock[0] += 1.5
            assert await catalog.known() is first
            while (second := await catalog.known()) is first:
                await asyncio.sleep(0)
            clock[0] += 2.5
            assert await catalog.known() is not second
        finally:
            await catalog.close()
            await askers.close()

    asyncio.run(run())
