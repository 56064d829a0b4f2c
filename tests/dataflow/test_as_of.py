"""Joins with versions in the dataflow: idle tables, a view's changes, restarts, what explain shows, what is refused."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

import penstock as ps
from penstock.dataflow.drawing import draw
from penstock.runtime.commit.operators import operator_runtime
from penstock.store import SqliteStore
from penstock.testing import TestStream, join, run

ORDERS = ps.stream(
    "orders", schema="item string, n int, at timestamp", event_time="at", watermark=ps.bounded("10 seconds")
)
PRICES = ps.stream(
    "prices", schema="item string, price int, since timestamp", event_time="since",
    watermark=ps.bounded("10 seconds", idle="1 minute"),
)  # fmt: skip
PRICED = ORDERS.join(PRICES.versions("item"), how="left")


def rows_on_all(view: ps.View, script: TestStream) -> list[tuple[object, ...]]:
    """The rows of a view, which are the same on the reference, on the kernel and on the engine."""
    tables = [run(view, script, engine) for engine in ("reference", "kernel", "engine")]
    assert tables[0].table == tables[1].table == tables[2].table
    assert tables[0].panes == tables[2].panes
    return [tuple(row[name] for name in view.values) for row in tables[0].table]


TAKINGS = PRICED.group_by("item").agg(n=ps.sum("n"), takings=ps.sum("n * price"))


def test_an_event_is_priced_with_the_version_of_its_time_on_every_engine():
    script = (
        TestStream(ORDERS, PRICES)
        .add(("tea", 1, "12:00:30"), to="orders")
        .add(("tea", 3, "12:00:00"), ("tea", 4, "12:01:00"), to="prices")
        .restart()
        .add(("tea", 2, "12:01:00"), ("tea", 5, "12:00:59"), to="orders")
        .watermark("12:02:00")
    )
    assert rows_on_all(TAKINGS, script) == [(8, 1 * 3 + 2 * 4 + 5 * 3)]


def test_an_idle_table_holds_back_nothing_and_counts_again_when_it_moves():
    """The last change of the table is three days old. Its own watermark would never get to the orders."""
    script = (
        TestStream(ORDERS, PRICES)
        .clock("2024-01-04 12:00:00")
        .add(("tea", 3, "2024-01-01 12:00:00"), to="prices")
        .add(("tea", 1, "2024-01-04 12:00:00"), ("tea", 2, "2024-01-04 12:00:30"), to="orders")
    )
    assert rows_on_all(TAKINGS, script) == []
    script = script.clock("+1 minute").clock("+1 second").add(("tea", 9, "2024-01-04 12:02:00"), to="orders")
    assert rows_on_all(TAKINGS, script) == [(3, 9)], "while the table is idle, orders follow their own watermark"
    script = script.restart().add(("tea", 4, "2024-01-04 12:01:55"), to="prices")
    script = script.add(("tea", 1, "2024-01-04 12:05:00"), to="orders")
    assert rows_on_all(TAKINGS, script) == [(3, 9)], "it moves again: the order at 12:02 waits for it"
    script = script.clock("+2 minutes").clock("+1 second").add(("tea", 0, "2024-01-04 12:09:00"), to="orders")
    assert rows_on_all(TAKINGS, script) == [(13, 9 + 9 * 4 + 4)]


def test_what_is_late_is_rejected_with_the_reason():
    script = (
        TestStream(ORDERS, PRICES)
        .add(("tea", 3, "12:00:00"), to="prices")
        .watermark("12:01:00")
        .add(("tea", 4, "12:00:50"), to="prices")
        .add(("tea", 1, "12:00:40"), ("tea", 2, "12:01:30"), to="orders")
        .watermark("12:02:00")
    )
    found = join(PRICED, script)
    assert [row[1] for row in found.rows] == [2]
    assert sorted(one.event.stream for one in found.late) == ["orders", "prices"]
    assert all("is behind the watermark" in one.reason for one in found.late)


def test_the_changes_of_a_view_are_versions_from_the_last_instant_of_their_window_on():
    per_minute = PRICES.group_by("item").window(ps.fixed("1 minute")).agg(price=ps.max("price"))
    best = per_minute.trigger(ps.on_time(early=ps.each())).retracting().changes("best").select("item", "price")
    takings = ORDERS.join(best.versions("item"), how="left").group_by("item").agg(all=ps.collect_list("price"))
    script = (
        TestStream(ORDERS, PRICES)
        .add(("tea", 3, "12:00:10"), to="prices")
        .add(("tea", 1, "12:00:59"), ("tea", 1, "12:01:00"), ("tea", 1, "12:02:30"), to="orders")
        .add(("tea", 5, "12:00:40"), ("tea", 4, "12:01:10"), to="prices")
        .watermark("12:10:00")
    )
    assert rows_on_all(takings, script) == [([5, 4],)], "null is not collected: the first order found none"


def test_a_stream_finds_its_own_versions():
    before = PRICES.join(PRICES.versions("item"), prefix="v_").group_by("item").agg(n=ps.sum("v_price"))
    script = TestStream(PRICES).add(("tea", 3, "12:00:10"), ("tea", 4, "12:00:20")).watermark("12:10:00")
    assert rows_on_all(before, script) == [(7,)]


def test_explain_says_that_it_is_as_of_the_events_time():
    app = ps.App("shop")
    orders = app.stream("orders", ps.files("orders"), schema=ORDERS.schema, event_time="at", watermark=ORDERS.watermark)
    prices = app.stream(
        "prices", ps.files("prices"), schema=PRICES.schema, event_time="since", watermark=PRICES.watermark
    )
    app.join("priced", orders, prices.versions("item"), how="left", event_time="at")
    line = app.explain().splitlines()[-1].strip()
    assert line == (
        "join priced ← orders and prices · left, as of the event's time · by item = item · watermark of its inputs · "
        "state in segments · kept: all"
    )
    texts = [text.text for text in ElementTree.fromstring(draw(app.graph())).iter("{http://www.w3.org/2000/svg}text")]
    assert any(text is not None and "as of the event's time" in text for text in texts)


@pytest.mark.parametrize(
    "changed",
    [
        ORDERS.join(PRICES.versions("item"), on="upper(item) = item", how="left", prefix="p_", name="priced"),
        ORDERS.join(PRICES.versions("item"), name="priced"),
        ORDERS.join(PRICES.select("item", "since").versions("item"), how="left", name="priced"),
        ORDERS.join(PRICES, on="item", within=("0 s", "0 s"), how="left", name="priced"),
    ],
    ids=["key", "kind", "columns", "bounds"],
)
def test_a_changed_definition_is_refused(changed: ps.Stream, tmp_path: Path):
    store = SqliteStore.open(tmp_path)
    store.lock()
    first = ORDERS.join(PRICES.versions("item"), how="left", name="priced")
    operator_runtime(first, store, lambda source: None)
    with pytest.raises(ps.DefinitionError, match="'priced' had another definition"):
        operator_runtime(changed, store, lambda source: None)
    operator_runtime(first, store, lambda source: None)
    store.close()
