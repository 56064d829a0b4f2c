"""A model in Spark's tasks: events of the history on their way to their part of an epoch, and the model's work there.

Rows pass through Spark as a few binary records: frames of events by part, then frames of predictions and updates.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl
import pyarrow as pa

from penstock.kernel.expressions import dtype
from penstock.learning.definition import Learning
from penstock.learning.part import ORDER, PartResult, dealt, keys_in, work
from penstock.learning.weights import Weights
from penstock.runtime.derived.arrivals import ARRIVED, Arriving
from penstock.runtime.epoch.wire import as_json, pack, record_batch, unpack
from penstock.sources import MALFORMED, REASON
from penstock.sources.base import LATE

RECORD: Final = "part int, kind string, data binary"
#: What a record holds: events, dead letters of the steps before the model, the keys of events; rows and an update.
EVENTS, DEAD, KEYS, ROWS, UPDATE = "events", "dead", "keys", "rows", "update"
_RECORD: Final = pa.schema([("part", pa.int32()), ("kind", pa.string()), ("data", pa.binary())])


@dataclass(frozen=True)
class Entering:
    """Reads what commits brought, takes the steps before the model, and deals the rows to the parts."""

    learning: Learning

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for good, dead in arrived(self.learning, batches):
            if dead.height:
                yield _records([(0, DEAD, pack(dead))])
            if good.height:
                keys = keys_in(self.learning, good)
                yield _records(
                    [(at, KEYS, pack(part_keys.to_frame("key"))) for at, part_keys in enumerate(keys.values())]
                )
                yield _records([(part, EVENTS, pack(some)) for part, some in dealt(self.learning, good)])


def arrived(learning: Learning, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Events in the form in which parts take them, and those (`__row`, `__reason`) on which the steps before fail."""
    assert learning.flow.schema is not None
    types = {name: dtype(kind) for name, kind in (*ARRIVED.items(), *learning.flow.schema)}
    for batch in Arriving(learning.flow)(batches):
        frame = pl.from_arrow(batch)
        assert isinstance(frame, pl.DataFrame)
        rows = frame.select(pl.col(name).cast(kind) for name, kind in types.items())
        failed = pl.col("__reason").is_not_null()
        good = rows.filter(~failed).select(*ORDER, *learning.flow.schema.names)
        yield good, rows.filter(failed).select("__row", "__reason")


@dataclass(frozen=True)
class Working:
    """Predicts and learns, part by part. `weights` are those of the version before the epoch."""

    learning: Learning
    weights: Weights
    version: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts: dict[int, list[pl.DataFrame]] = {}
        dead: list[pl.DataFrame] = []
        for batch in batches:
            for part, kind, data in zip(*(batch.column(at).to_pylist() for at in range(3)), strict=True):
                if kind == DEAD:
                    dead.append(unpack(data).rename({"__row": MALFORMED, "__reason": REASON}))
                else:
                    parts.setdefault(part, []).append(unpack(data))
        if dead:
            yield _records([(0, ROWS, pack(self._whole(pl.concat(dead))))])
        for part in sorted(parts):
            done = work(self.learning, self.weights, self.version, pl.concat(parts[part]))
            yield _records([(part, ROWS, pack(self._leaving(done)))])
            if done.update is not None:
                yield _records([(part, UPDATE, pickle.dumps(done.update))])

    def _leaving(self, done: PartResult) -> pl.DataFrame:
        """Predictions and dead letters, as the log of the stream has them."""
        text = as_json(done.dead, self.learning.event.names).alias(MALFORMED)
        dead = done.dead.select(text, pl.col("__reason").alias(REASON))
        return pl.concat([self._whole(done.rows), self._whole(dead)])

    def _whole(self, rows: pl.DataFrame) -> pl.DataFrame:
        types = {name: dtype(kind) for name, kind in self.learning.schema}
        types |= {MALFORMED: pl.String(), REASON: pl.String(), LATE: pl.Boolean()}
        lacking = [pl.lit(None, kind).alias(name) for name, kind in types.items() if name not in rows.columns]
        return rows.with_columns(lacking).select(*types)


def _records(rows: list[tuple[int, str, bytes]]) -> pa.RecordBatch:
    return record_batch(_RECORD, rows)
