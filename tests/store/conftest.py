"""A small view, and stores that are closed when a test ends."""

from __future__ import annotations

import itertools
import os
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
from penstock.store import Reader, SqlStore, open_store
from penstock.store.address import Address

SECOND = 1_000_000
NOON = 1_714_564_800 * SECOND  # 2024-05-01 12:00:00
STREAM = ps.stream(
    "s", schema="k string, v int, at timestamp", event_time="at", watermark=ps.bounded("0 seconds"), max_ahead=None
)
VIEW = STREAM.group_by("k").window(ps.fixed("10 seconds")).agg(n=ps.count(), total=ps.sum("v"))

Row = tuple[object, int | None, int]  # k, v, seconds after noon


class Home:
    """Where the store of a test is: a directory, and for PostgreSQL a schema that no other test has."""

    def __init__(self, directory: Path, url: str | None) -> None:
        self.directory, self.url = directory, url
        if url is not None:
            Address.read(url)  # so that readers of this process know the password

    @property
    def is_sqlite(self) -> bool:
        return self.url is None

    def store(self) -> SqlStore:
        return open_store(self.directory, url=self.url)

    def reader(self) -> Reader:
        return Reader(self.directory)


_NUMBERS = itertools.count(1)
#: For what is about one kind of store.
ONLY_SQLITE = pytest.mark.parametrize("home", ["sqlite"], indirect=True)
ONLY_POSTGRES = pytest.mark.parametrize("home", ["postgres"], indirect=True)


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    """One suite runs on both stores."""
    if request.param == "sqlite":
        return Home(tmp_path, None)
    server = request.getfixturevalue("postgres")
    return Home(tmp_path, f"{server.url}?schema=t{os.getpid()}_{next(_NUMBERS)}")


@pytest.fixture
def opened(home: Home) -> Iterator[Callable[..., SqlStore]]:
    """Opens, locks and prepares the store of this test."""
    stores: list[SqlStore] = []

    def open_store(**views: ps.View) -> SqlStore:
        store = home.store()
        stores.append(store)
        store.lock()
        store.prepare({name: Plan(view) for name, view in views.items()})
        return store

    yield open_store
    for store in stores:
        store.close()


def change(store: SqlStore, name: str, *rows: Row, before: Instant = BEGINNING, after: Instant = BEGINNING) -> Change:
    """What these rows and this watermark do to a view of STREAM."""
    plan = store.state(name).plan
    events = [Event("s", {"k": k, "v": v, "at": NOON + at * SECOND}, 0, n) for n, (k, v, at) in enumerate(rows)]
    frame = admit(STREAM, events_frame(STREAM, events, 0), NOON).rows
    deltas = [reduce(plan, "s", frame, before).deltas] if events else []
    return step(plan, deltas, store.state(name), Time(before, after, NOON, lambda percent: after))


def contents(store: SqlStore, sql: str = "SELECT * FROM v ORDER BY 1, 2, 3") -> list[tuple[object, ...]]:
    return store.query(sql).rows()


def refused(*offsets: int) -> pl.DataFrame:
    return pl.DataFrame(
        {"stream": "s", "view": None, "partition": 0, "offset": list(offsets), "at": None, "reason": "…", "row": "{}"},
        schema_overrides={"view": pl.String, "at": pl.Int64},
    )
