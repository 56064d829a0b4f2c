"""A view in a real store that scripts feed, and deliveries from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

import penstock as ps
from penstock.kernel.fire import pane_schema
from penstock.kernel.plan import Plan, nothing
from penstock.model.commits import Commit
from penstock.sinks import Delivery, Sink
from penstock.store import SqliteStore
from penstock.store.arrivals import DeliveryTime
from penstock.store.block import Block, encoded, view_panes
from penstock.testing import TestStream
from tests.outbox import panes
from tests.store.engine import NAME, StoreEngine

STREAM = ps.stream(
    "s", schema="k string, v int, at timestamp", event_time="at", watermark=ps.bounded("0 seconds"), max_ahead=None
)
COUNTS = STREAM.group_by("k").window(ps.fixed("10 seconds")).agg(n=ps.count(), total=ps.sum("v"))
#: Each commit fires early; windows are corrected by a retraction and an insert.
LIVE = COUNTS.trigger(ps.on_time(early=ps.each())).retracting()
PATIENCE = 60.0


class Fed:
    """A view's store, and the script that feeds it commit by commit."""

    def __init__(self, view: ps.View, directory: Path, script: TestStream) -> None:
        self.view, self.engine = view, StoreEngine(view, directory)
        self.commits: Iterator[Commit | None] = iter(script.commits())

    @property
    def store(self) -> Any:
        return self.engine.store

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            commit = next(self.commits)
            assert commit is not None
            self.engine.commit(commit)

    def all(self) -> None:
        for commit in self.commits:
            assert commit is not None
            self.engine.commit(commit)

    def delivery(self, options: dict[str, Any] | None = None, /, **sinks: Sink) -> Delivery:
        settings: dict[str, Any] = {
            "commit_positions": self.store.delivered, "trim": self.store.trim_outbox, "patience": PATIENCE,
        }  # fmt: skip
        named = {name: (NAME, self.view, sink) for name, sink in sinks.items()}
        return Delivery(self.store, named, **(settings | (options or {})))

    def deliver(self, **sinks: Sink) -> int:
        """A process that delivers what is there, and ends."""
        delivery = self.delivery(**sinks)
        try:
            taken = delivery.deliver()
            assert not delivery.failures, delivery.failures
        finally:
            delivery.close()
        return taken

    def deliver_through_a_rename(self, open_sink: Callable[[], Sink]) -> None:
        """Delivers as the sink `first`; dies before the store knows; goes on as `second`, after it was renamed."""

        def dies(positions: Mapping[str, int], deliveries: Collection[DeliveryTime]) -> None:
            raise RuntimeError("killed")

        self.step(4)
        self.deliver(first=open_sink())
        self.step(2)
        dying = self.delivery({"commit_positions": dies}, first=open_sink())
        dying.deliver()
        dying.close()
        self.store.records.rename_sink("first", "second")
        self.step(2)
        self.deliver(second=open_sink())

    def panes(self) -> pl.DataFrame:
        """What the outbox has of the view."""
        plan = Plan(self.view)
        none = Block(1, 0, 0, encoded(view_panes(plan, nothing(pane_schema(plan)))))
        return pl.concat(block.panes for block in [none, *self.store.blocks(NAME, 0, 1 << 30)])

    def ids(self) -> list[int]:
        return panes(self.store)["id"].to_list()


def steady(epochs: int) -> TestStream:
    """So many commits, each of which fires panes of two keys; the windows go by."""
    script = TestStream(STREAM)
    for number in range(epochs):
        at = f"12:{number // 20:02}:{number % 20 * 3:02}"
        script = script.add(("a", number, at), ("b", 1, at))
    return script


class Collected:
    """A function for a sink that keeps what it gets."""

    def __init__(self) -> None:
        self.calls: list[list[dict[str, Any]]] = []

    def __call__(self, rows: list[dict[str, Any]]) -> None:
        self.calls.append(rows)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for call in self.calls for row in call]

    @property
    def ids(self) -> list[int]:
        return [row["pane"] for row in self.rows]


def deliver_with_faults(root: Path, at: Callable[[str], None], sinks: Mapping[str, Sink], **options: Any) -> None:
    """Delivers what the store in `root` holds; `at` is called around each note of it, and may not return."""
    store = SqliteStore.open(root / "state")
    store.lock()
    store.prepare({"v": Plan(LIVE)})

    def commit_positions(positions: Mapping[str, int], deliveries: Collection[DeliveryTime]) -> None:
        at("before the store")
        store.delivered(positions, deliveries)
        at("after the store")

    named = {name: ("v", LIVE, sink) for name, sink in sinks.items()}
    settings = {"commit_positions": commit_positions, "trim": store.trim_outbox, "keep": 10, "patience": 60}
    delivery = Delivery(store, named, **(settings | options))
    delivery.deliver()
    assert not delivery.failures, delivery.failures
    delivery.close()
    store.close()
    print("done", flush=True)
