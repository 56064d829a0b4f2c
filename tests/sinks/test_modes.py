"""Every mode in every sink, on one short story: two windows that fire early, on time, and with corrections."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pytest

import penstock as ps
from penstock.sinks import read_jsonl, to_console, to_function, to_jsonl, to_parquet
from penstock.testing import TestStream
from tests.sinks.support import LIVE, STREAM, Collected, Fed

STORY = (
    TestStream(STREAM)
    .add(("a", 1, "12:00:01"), ("b", 5, "12:00:02"))
    .add(("a", 2, "12:00:03"))
    .add(("a", 9, "12:00:11"))
)
#: (k, second at which the window starts, n, total)
FIRED = {
    "panes": [
        ("a", 0, 1, 1, "insert"), ("b", 0, 1, 5, "insert"),  # the first commit
        ("a", 0, 1, 1, "retract"), ("a", 0, 2, 3, "insert"),  # the second
        ("a", 0, 2, 3, "retract"), ("a", 0, 2, 3, "insert"), ("a", 10, 1, 9, "insert"),  # the third, on time
        ("b", 0, 1, 5, "retract"), ("b", 0, 1, 5, "insert"),
    ],
    "append": [("a", 0, 2, 3, "insert"), ("b", 0, 1, 5, "insert")],
    "update": [("a", 0, 2, 3, "insert"), ("a", 10, 1, 9, "insert"), ("b", 0, 1, 5, "insert")],
}  # fmt: skip
TABLE = [("a", 0, 2, 3, True), ("a", 10, 1, 9, False), ("b", 0, 1, 5, True)]
PANES = ("panes", "append", "update")


@pytest.fixture
def fed(feed) -> Fed:
    made = feed(LIVE, STORY)
    made.all()
    return made


def second(at: datetime | str) -> int:
    return (datetime.fromisoformat(at) if isinstance(at, str) else at).second


def brief(row: dict, last: str = "kind") -> tuple:
    return (row["k"], second(row["window_start"]), row["n"], row["total"], row[last])


@pytest.mark.parametrize("mode", PANES)
def test_a_function_gets_the_panes_of_its_mode(fed, mode):
    got = Collected()
    assert fed.deliver(f=to_function(got, mode=mode)) == len(FIRED[mode])
    assert sorted(map(brief, got.rows)) == sorted(FIRED[mode])
    assert got.ids == sorted(set(got.ids))
    assert list(got.rows[0]) == [
        "k", "window_start", "window_end", "n", "total", "kind", "timing", "index", "final", "pane", "commit",
    ]  # fmt: skip
    assert got.rows[0]["window_start"].tzinfo is UTC


def test_a_row_is_all_that_is_known_of_a_pane(fed):
    got = Collected()
    fed.deliver(f=to_function(got))
    midday = datetime(2000, 1, 1, 12, tzinfo=UTC)
    assert got.rows[0] == {
        "k": "a", "window_start": midday, "window_end": midday.replace(second=10), "n": 1, "total": 1,
        "kind": "insert", "timing": "early", "index": 0, "final": False, "pane": 1, "commit": 1,
    }  # fmt: skip


@pytest.mark.parametrize("mode", PANES)
def test_files_hold_the_panes_of_their_mode(fed, tmp_path, mode):
    fed.deliver(j=to_jsonl(tmp_path / "j", mode=mode), p=to_parquet(tmp_path / "p", mode=mode))
    lines = list(read_jsonl(tmp_path / "j"))
    assert sorted(map(brief, lines)) == sorted(FIRED[mode])
    assert lines[0]["window_start"] == "2000-01-01T12:00:00Z"
    frame = pl.read_parquet(tmp_path / "p" / "*.parquet")
    assert frame.schema["window_start"] == pl.Datetime("us", "UTC")
    assert [brief(row) for row in frame.iter_rows(named=True)] == [brief(row) for row in lines]


def test_update_shows_only_the_newest_value_where_several_come_at_once(feed):
    fed, got = feed(LIVE, STORY), Collected()
    delivery = fed.delivery(f=to_function(got, mode="update"))
    for _ in range(3):
        fed.step()
        delivery.deliver()
    delivery.close()
    newest = {(row["k"], row["window_start"]): row["n"] for row in got.rows}
    assert sorted(newest.values()) == [1, 1, 2]
    assert len(got.rows) == 6, "commit by commit each change is shown"


def test_complete_is_the_whole_table_each_time_something_fired(feed, tmp_path):
    fed, got = feed(LIVE, STORY), Collected()
    delivery = fed.delivery(
        f=to_function(got, mode="complete"), j=to_jsonl(tmp_path / "j", mode="complete", rows_per_file=1)
    )
    fed.step()
    assert delivery.deliver() == 4, "two panes for each of two sinks"
    assert delivery.deliver() == 0, "nothing fired since"
    fed.all()
    delivery.deliver()
    delivery.close()
    assert [len(call) for call in got.calls] == [2, 3]
    assert [brief(row, "final") for row in got.calls[-1]] == TABLE
    assert list(got.calls[-1][0]) == list(LIVE.columns)
    first, last = sorted((tmp_path / "j").glob("*.jsonl"))
    assert (first.name, last.name) == ("000000000001-000000000002.jsonl", "000000000003-000000000009.jsonl")
    assert len(last.read_text().splitlines()) == 3, "a table is never cut"


def test_the_console_shows_a_limited_table_of_text(fed, capsys):
    fed.deliver(screen=to_console(limit=2, mode="append"))
    assert capsys.readouterr().out.splitlines() == [
        "v → screen: 2 rows",
        "k  window_start         window_end           n  total  kind    timing   index  final  pane  commit",
        "a  2000-01-01 12:00:00  2000-01-01 12:00:10  2      3  insert  on time      2  true      6       3",
        "b  2000-01-01 12:00:00  2000-01-01 12:00:10  1      5  insert  on time      1  true      9       3",
    ]
    fed.deliver(other=to_console(limit=1))
    shown = capsys.readouterr().out.splitlines()
    assert shown[:2] == ["v → other: 9 rows", "… and 8 before them"]
    assert len(shown) == 4


def test_count_windows_and_windows_without_end_have_their_own_bounds(feed):
    counted = STREAM.group_by("k").window(ps.count_window(2)).agg(n=ps.count())
    for name, view, mode, expected in [
        ("counted", counted, "append", {(0, 2)}),
        ("global", STREAM.group_by().agg(n=ps.count()), "update", {(None, None)}),
    ]:
        fed, got = feed(view, STORY, name=name), Collected()
        fed.all()
        fed.deliver(f=to_function(got, mode=mode))
        assert {(row["window_start"], row["window_end"]) for row in got.rows} == expected
