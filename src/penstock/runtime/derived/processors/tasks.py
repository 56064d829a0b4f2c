"""A processor in Spark's tasks: events of the master on their way to the part of the keys that they belong to.

Rows pass through Spark as a few binary records: a frame of events for each part of the keys, and a frame of what the
processor gave. So what a row costs is what the user's code costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Final
from zlib import crc32

import polars as pl
import pyarrow as pa

from penstock.kernel.elements import elements
from penstock.kernel.plan import PLACE, Plan
from penstock.model.process import Process
from penstock.runtime.derived.commits import past_of
from penstock.runtime.derived.processors.rows import DEAD, EVENTS
from penstock.runtime.derived.times import TIME
from penstock.runtime.epoch.wire import as_json, pack, plain, record_batch

ENTERING: Final = "bucket int, kind string, data binary"
_ENTERING: Final = pa.schema([("bucket", pa.int32()), ("kind", pa.string()), ("data", pa.binary())])
_BITS: Final = 0xFFFF_FFFF


@dataclass(frozen=True)
class Entering:
    """Reads what commits brought, takes the steps before the processor, and tells the keys apart by parts."""

    process: Process
    buckets: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = Plan(self.process.view)
        for batch in batches:
            for kind, data in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                if kind == TIME:
                    yield _batch([(bucket, TIME, data) for bucket in spread(self.buckets)])
                else:
                    past = past_of(data)
                    yield from self._read(plan, past.stream.name, past.read())

    def _read(self, plan: Plan, stream: str, rows: pl.DataFrame) -> Iterator[pa.RecordBatch]:
        commits = rows.select(*PLACE, "__commit")
        for branch in plan.branches:
            if branch.source.name != stream:
                continue
            found = elements(plan, branch, rows)
            if found.dead.height:
                told = found.dead.join(rows, on=list(PLACE))
                told = told.with_columns(as_json(told, branch.source.schema.names).alias("row"))
                told = told.select("row", pl.col("__reason").alias("reason"))
                yield _batch([(spread(self.buckets)[0], DEAD, pack(told))])
            yield from self._parted(plan, found.good.collect().join(commits, on=list(PLACE)))

    def _parted(self, plan: Plan, rows: pl.DataFrame) -> Iterator[pa.RecordBatch]:
        shape = self.process.shape
        keys = rows.select(plain(rows[name]) for name in plan.keys).unique()
        texts = [shape.key_text(values) for values in keys.iter_rows()] if plan.keys else ["[]"]
        buckets = spread(self.buckets)
        parts = [buckets[crc32(text.encode()) % self.buckets] for text in texts]
        told = pl.DataFrame({"__key": texts, "__bucket": parts}, schema={"__key": pl.String, "__bucket": pl.Int32})
        columns = [pl.col(plan.inputs[f"`{name}`"]).alias(f"e:{name}") for name in shape.event.names]
        if plan.keys:
            physical = rows.with_columns(plain(rows[name]).alias(f"k:{name}") for name in plan.keys)
            told = pl.concat([keys.rename({name: f"k:{name}" for name in plan.keys}), told], how="horizontal")
            rows = physical.join(told, on=[f"k:{name}" for name in plan.keys], nulls_equal=True)
        else:
            rows = rows.with_columns(pl.lit("[]").alias("__key"), pl.lit(parts[0], pl.Int32).alias("__bucket"))
        rows = rows.select("__bucket", "__key", "__commit", "__source", *PLACE, "__at", *columns)
        for (bucket,), part in rows.partition_by("__bucket", include_key=False, as_dict=True).items():
            yield _batch([(int(bucket), EVENTS, pack(part))])


@lru_cache
def spread(buckets: int) -> tuple[int, ...]:
    """Numbers for parts of the keys which Spark gives out evenly to tasks whose number divides that of the parts."""
    found: dict[int, int] = {}
    for number in count():
        found.setdefault(_spark_hash(number) % buckets, number)
        if len(found) == buckets:
            return tuple(found[part] for part in range(buckets))
    raise AssertionError


def _spark_hash(number: int) -> int:
    """What Spark tells the task of a number by: MurmurHash3 of four bytes, from 42."""
    some = _turned(number * 0xCC9E2D51, 15) * 0x1B873593
    some = _turned(42 ^ (some & _BITS), 13) * 5 + 0xE6546B64
    some = (some & _BITS) ^ 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        some = ((some ^ (some >> shift)) * factor) & _BITS
    return some - (1 << 32) if some >> 31 else some


def _turned(number: int, by: int) -> int:
    return ((number & _BITS) << by | (number & _BITS) >> (32 - by)) & _BITS


def _batch(rows: list[tuple[int, str, bytes]]) -> pa.RecordBatch:
    return record_batch(_ENTERING, rows)
