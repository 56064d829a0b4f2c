"""An engine without Spark: the same jobs, run on Arrow batches in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

import penstock as ps
from penstock.history.events.event_history import EventHistory
from penstock.history.events.sweep import sweep_orphans
from penstock.model.stream import Stream
from penstock.model.time import instant
from penstock.runtime.engine import Engine
from penstock.runtime.epoch.origin import EpochOrigin
from penstock.sources import MALFORMED
from penstock.store import SqliteStore

SCHEMA = "id bigint, user string, price decimal(10,2), at timestamp"
NOW = instant("2024-05-01T13:00:00Z")
START = instant("2024-05-01T12:00:00Z")


class Frame:
    """What the engine asks of a frame of Spark's: parts, one a task. `lost` attempts run, and count for nothing."""

    def __init__(self, parts: Sequence[pl.DataFrame], lost: int = 0) -> None:
        self.parts, self.lost = [part.to_arrow().to_batches() for part in parts], lost
        self.columns = parts[0].columns

    def persist(self) -> Frame:
        return self

    def unpersist(self) -> None:
        return

    def mapInArrow(self, job: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str) -> Any:
        for part in self.parts[: self.lost]:
            list(job(part))
        found = [batch for part in self.parts for batch in job(part)]
        return _Records(found)


class _Records:
    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self._batches = batches

    def toArrow(self) -> pa.Table:
        kind = [("kind", pa.string()), ("number", pa.int32()), ("data", pa.binary())]
        return pa.Table.from_batches(self._batches, pa.schema(kind))


class App:
    """A stream `orders` and a view on it, in a directory; epochs are given by hand."""

    def __init__(
        self, directory: Path, *, id: str | None = "id", keep: str | None = None, history_at: str | None = None
    ) -> None:
        self.stream: Stream = ps.stream(
            "orders", schema=SCHEMA, event_time="at", id=id, keep=keep, watermark=ps.bounded("10 seconds", idle=None)
        )
        view = self.stream.group_by("user").window(ps.fixed("10 seconds")).agg(n=ps.count(), paid=ps.sum("price"))
        self.store = SqliteStore.open(directory)
        self.store.lock()
        self.history = EventHistory(self.store, history_at)
        self.engine = Engine({"orders": self.stream}, self.store, NOW, lambda name: True, history=self.history)
        self.engine.registry.keep({"by_user": view})
        self.next = 1 + (-1 if (found := self.store.progress("q")) is None else found.epoch)

    def epoch(self, *parts: pl.DataFrame, lost: int = 0, now: int = NOW) -> int:
        """An epoch of these parts; the number of its commit."""
        source = EpochOrigin("q", self.next, f"to {self.next}")
        self.engine.epoch("orders", self.stream.schema.names, Frame(parts, lost), source, now)  # type: ignore[arg-type]
        self.next += 1
        return self.last

    @property
    def last(self) -> int:
        found = self.store.last()
        return 0 if found is None else found.number

    def held(self, **bounds: Any) -> pl.DataFrame:
        """What the history holds, in the order of commits and places."""
        return self.history.past(self.stream, **bounds).read().sort("__commit", "__partition", "__offset")

    def paths(self) -> set[str]:
        """All files that lie in the history's place."""
        return set(self.history.place.names(self.history.home))

    def swept(self) -> int:
        """How many files that nobody lists were removed."""
        return sweep_orphans(self.history.place, self.store, self.history.home, self.history.writes)

    def close(self) -> None:
        self.store.close()


def rows(*events: tuple[int | None, str | None, int | None], partition: int = 0, first: int = 0) -> pl.DataFrame:
    """Events (id, user, second) of a partition. Without a second the time is null, without a user it is malformed."""
    found = [
        {
            "id": id, "user": user, "price": None if id is None else id / 4,
            "at": None if second is None else START + second * 1_000_000,
            MALFORMED: f"bad {id}" if user is None else None,
            "__partition": partition, "__offset": first + number,
        }
        for number, (id, user, second) in enumerate(events)
    ]  # fmt: skip
    schema = {
        "id": pl.Int64, "user": pl.String, "price": pl.Float64, "at": pl.Int64, MALFORMED: pl.String,
        "__partition": pl.Int32, "__offset": pl.Int64,
    }  # fmt: skip
    frame = pl.DataFrame(found, schema=schema)
    return frame.with_columns(pl.col("price").cast(pl.Decimal(10, 2)), pl.col("at").cast(pl.Datetime("us", "UTC")))
