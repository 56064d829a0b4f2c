"""A store with two views, filled without Spark, and servers on it that are stopped when a test ends."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
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
from penstock.model.time import BEGINNING
from penstock.serve.server import Server
from penstock.serve.service import Host
from penstock.serve.settings import Settings
from penstock.sources.http.inbox import FOLDER, declare
from penstock.state.step import SegmentChange, SegmentChanges, ShardStep, fixed_time, steps
from penstock.store import Commit, open_store
from penstock.store.figures import Figures
from penstock.store.marks import Mark

SECOND = 1_000_000
NOON = 1_714_564_800 * SECOND  # 2024-05-01 12:00:00
STREAM = ps.stream(
    "posts", schema="tag string, likes int, at timestamp", event_time="at", watermark=ps.bounded("0 seconds"),
    max_ahead=None,
)  # fmt: skip
VIEWS = {
    "trending": STREAM.group_by("tag").window(ps.fixed("10 seconds")).agg(posts=ps.count(), likes=ps.sum("likes"))
    .trigger(ps.each()),
    "totals": STREAM.group_by().agg(posts=ps.count(), best=ps.max("likes")),
}  # fmt: skip

Row = tuple[str | None, int | None, int]  # tag, likes, seconds after noon


class Filled:
    """A store to which commits are made by hand. With `shards`, the rows of views are in segments."""

    def __init__(self, directory: Path, url: str | None = None, shards: int = 0) -> None:
        self.directory = directory
        self.store = open_store(directory, url=url)
        self.store.lock()
        self.store.prepare({name: Plan(view) for name, view in VIEWS.items()})
        self.store.keep_history({"posts": ("none", STREAM.schema.ddl())}, None)
        self.segment = 0
        for name in VIEWS if shards else ():
            self.store.shard(name, shards)

    def commit(self, *rows: Row, watermark: int | None = None, segment: int | None = None) -> int:
        """One epoch with these rows; with a `segment` its offsets name it."""
        after = BEGINNING if watermark is None else NOON + watermark * SECOND
        changes = {name: self._change(name, rows, after) for name in VIEWS if self.store.sharded(name) is None}
        segments = {name: self._segments(name, rows, after) for name in VIEWS if name not in changes}
        epoch = self.store.progress("q")
        return self.store.commit(
            Commit(
                kind="epoch", now=NOON, query="q", epoch=0 if epoch is None else epoch.epoch + 1,
                offsets=f'{{"inbox":"posts","number":{segment or 0}}}', changes=changes, segments=segments,
                view_times=dict.fromkeys(VIEWS, after), counters={"posts.events": len(rows), "posts.late": 0},
                timings={"reduce": 0.5, "merge": 0.25}, mark=Mark("posts"), figures=Figures(rows=1),
            )
        )  # fmt: skip

    def _change(self, name: str, rows: tuple[Row, ...], after: int) -> Change:
        plan = self.store.state(name).plan
        return step(plan, self._deltas(plan, rows), self.store.state(name), _time(after))

    def _segments(self, name: str, rows: tuple[Row, ...], after: int) -> SegmentChange:
        view = self.store.sharded(name)
        assert view is not None
        time = fixed_time(view.plan, _time(after))
        work = ShardStep(name, view.plan, view.root, view.segments, view.closed, view.next_run, time)
        changes = SegmentChanges(view.root, uuid.uuid4().hex)
        for stepped in steps(work, self._deltas(view.plan, rows), view.shards):
            changes.add(stepped)
        return changes.change(view.plan)

    def _deltas(self, plan: Plan, rows: tuple[Row, ...]) -> list[pl.DataFrame]:
        events = [
            Event("posts", {"tag": tag, "likes": likes, "at": NOON + at * SECOND}, 0, n)
            for n, (tag, likes, at) in enumerate(rows)
        ]
        frame = admit(STREAM, events_frame(STREAM, events, 0), NOON).rows
        return [reduce(plan, "posts", frame, BEGINNING).deltas] if events else []

    def close(self) -> None:
        self.store.close()


def _time(after: int) -> Time:
    return Time(BEGINNING, after, NOON, lambda percent: after)


@pytest.fixture
def shards() -> int:
    """Into how many shards the rows of views are cut; none are in segments if it is zero."""
    return 0


@pytest.fixture
def store_url() -> str | None:
    """Where the store is, if not in the directory."""
    return None


@pytest.fixture
def filled(tmp_path: Path, store_url: str | None, shards: int) -> Iterator[Filled]:
    made = Filled(tmp_path / "state", store_url, shards)
    made.commit(("x", 1, 0), ("x", 2, 1), ("y", 5, 3), (None, None, 4), ("x", 4, 12), ("=cmd()", 1, 25))
    declare(made.directory / FOLDER / "posts", "posts", STREAM.schema, base=1)
    yield made
    made.close()


@pytest.fixture
def serving(filled: Filled) -> Iterator[Callable[..., Server]]:
    """Starts a server on the store of this test."""
    servers: list[Server] = []

    def start(host: Host = Host(), **settings: Any) -> Server:  # noqa: B008
        server = Server(filled.directory, Settings(**{"port": 0, **settings}), host)
        servers.append(server)
        return server.start()

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def client(serving: Callable[..., Server]) -> Iterator[httpx.Client]:
    """A client of a server with nothing special about it."""
    with httpx.Client(base_url=serving().url, timeout=30) as found:
        yield found
