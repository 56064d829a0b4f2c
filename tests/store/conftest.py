"""A small view, and stores that are closed when a test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

import penstock as ps
from penstock.kernel.admit import admit
from penstock.kernel.fire import Time
from penstock.kernel.local import events_frame
from penstock.kernel.plan import Plan
from penstock.kernel.reduce import reduce
from penstock.kernel.step import Change, step
from penstock.model.commits import Event
from penstock.model.time import BEGINNING, Instant
from penstock.store import SqliteStore

SECOND = 1_000_000
NOON = 1_714_564_800 * SECOND  # 2024-05-01 12:00:00
STREAM = ps.stream(
    "s", schema="k string, v int, at timestamp", event_time="at", watermark=ps.bounded("0 seconds"), max_ahead=None
)
VIEW = STREAM.group_by("k").window(ps.fixed("10 seconds")).agg(n=ps.count(), total=ps.sum("v"))

Row = tuple[object, int | None, int]  # k, v, seconds after noon


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., SqliteStore]]:
    """Opens, locks and prepares the store of this test."""
    stores: list[SqliteStore] = []

    def open_store(**views: ps.View) -> SqliteStore:
        store = SqliteStore.open(tmp_path)
        stores.append(store)
        store.lock()
        store.prepare({name: Plan(view) for name, view in views.items()})
        return store

    yield open_store
    for store in stores:
        store.close()


def change(
    store: SqliteStore, name: str, *rows: Row, before: Instant = BEGINNING, after: Instant = BEGINNING
) -> Change:
    """What these rows and this watermark do to a view of STREAM."""
    plan = store.state(name).plan
    events = [Event("s", {"k": k, "v": v, "at": NOON + at * SECOND}, 0, n) for n, (k, v, at) in enumerate(rows)]
    frame = admit(STREAM, events_frame(STREAM, events, 0), NOON).rows
    deltas = [reduce(plan, "s", frame, before).deltas] if events else []
    return step(plan, deltas, store.state(name), Time(before, after, NOON, lambda percent: after))


def contents(store: SqliteStore, sql: str = "SELECT * FROM v ORDER BY 1, 2, 3") -> list[tuple[object, ...]]:
    return store.query(sql).rows()


def refused(*offsets: int) -> pl.DataFrame:
    return pl.DataFrame(
        {"stream": "s", "view": None, "partition": 0, "offset": list(offsets), "at": None, "reason": "…", "row": "{}"},
        schema_overrides={"view": pl.String, "at": pl.Int64},
    )
