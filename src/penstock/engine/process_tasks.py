"""A processor in Spark's tasks: events of the master on their way to the part of the keys that they belong to, and what
`transformWithState` runs there.

Rows pass through Spark as a few binary records: a frame of events for each part of the keys, and a frame of what the
processor gave. So what a row costs is what the user's code costs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import polars as pl
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from penstock.engine.commits_source import TIME, past_of, times_of
from penstock.engine.process_bucket import Arrived, Bucket, Outcome
from penstock.engine.records import as_json, pack, unpack
from penstock.engine.state_pipe import Texts
from penstock.kernel.elements import elements
from penstock.kernel.expressions import dtype
from penstock.kernel.plan import Plan
from penstock.logs import MALFORMED, REASON
from penstock.logs.base import LATE
from penstock.model.process import Process
from penstock.model.processing import Processing

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import TimerValues, ValueState

ENTERING: Final = "bucket int, kind string, data binary"
LEAVING: Final = "kind string, data binary"
#: What a record holds: events, dead letters of the steps before the processor; rows that it gave, and what to remember.
EVENTS, DEAD, ROWS, NOTE = "events", "dead", "rows", "note"
_ENTERING: Final = pa.schema([("bucket", pa.int32()), ("kind", pa.string()), ("data", pa.binary())])
_PLACE: Final = ("__partition", "__offset")
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
        commits = rows.select(*_PLACE, "__commit")
        for branch in plan.branches:
            if branch.source.name != stream:
                continue
            found = elements(plan, branch, rows)
            if found.dead.height:
                told = found.dead.join(rows, on=list(_PLACE))
                told = told.with_columns(as_json(told, branch.source.schema.names).alias("row"))
                told = told.select("row", pl.col("__reason").alias("reason"))
                yield _batch([(spread(self.buckets)[0], DEAD, pack(told))])
            yield from self._parted(plan, found.good.collect().join(commits, on=list(_PLACE)))

    def _parted(self, plan: Plan, rows: pl.DataFrame) -> Iterator[pa.RecordBatch]:
        shape = self.process.shape
        keys = rows.select(_plain(rows[name]) for name in plan.keys).unique()
        texts = [shape.key_text(values) for values in keys.iter_rows()] if plan.keys else ["[]"]
        buckets = spread(self.buckets)
        parts = [buckets[crc32(text.encode()) % self.buckets] for text in texts]
        told = pl.DataFrame({"__key": texts, "__bucket": parts}, schema={"__key": pl.String, "__bucket": pl.Int32})
        columns = [pl.col(plan.inputs[f"`{name}`"]).alias(f"e:{name}") for name in shape.event.names]
        if plan.keys:
            physical = rows.with_columns(_plain(rows[name]).alias(f"k:{name}") for name in plan.keys)
            told = pl.concat([keys.rename({name: f"k:{name}" for name in plan.keys}), told], how="horizontal")
            rows = physical.join(told, on=[f"k:{name}" for name in plan.keys], nulls_equal=True)
        else:
            rows = rows.with_columns(pl.lit("[]").alias("__key"), pl.lit(parts[0], pl.Int32).alias("__bucket"))
        rows = rows.select("__bucket", "__key", "__commit", "__source", *_PLACE, "__at", *columns)
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
    columns = zip(zip(*rows, strict=True), _ENTERING, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in columns], schema=_ENTERING)


class SparkCells:
    """Cells in Spark's state: maps of text by text, for the part of the keys at hand."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._cells = Texts(handle.getMapState("cells", "key string", "cell string"))
        self._slots = Texts(handle.getMapState("slots", "slot string", "keys string"))
        self._index: ValueState = handle.getValueState("index", "slots string")

    def get(self, keys: Sequence[str]) -> list[str | None]:
        return self._cells.get(keys)

    def put(self, texts: Iterable[tuple[str, str | None]]) -> None:
        self._cells.put(texts)

    def slots(self, slots: Sequence[str]) -> list[str | None]:
        return self._slots.get(slots)

    def put_slots(self, texts: Iterable[tuple[str, str | None]]) -> None:
        self._slots.put(texts)

    def index(self) -> str | None:
        found = self._index.get()
        return None if found is None else str(found[0])

    def put_index(self, text: str) -> None:
        self._index.update((text,))


class Operator(StatefulProcessor):
    """What Spark runs for each part of the keys, in every epoch."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._cells = SparkCells(handle)
        self._processing = Processing(self._process.shape)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:
        times, events, dead = [], [], []
        for row in rows:
            if row.kind == TIME:
                times += times_of(row.data)
            elif row.kind == DEAD:
                dead.append(unpack(bytes(row.data)))
            else:
                events.append(unpack(bytes(row.data)))
        bucket = Bucket(self._process, self._processing, self._cells)
        arrived = _by_commit(self._process, events)
        bucket.load(event.key for some in arrived.values() for event in some)
        for time in times:
            bucket.commit(arrived.get(time.commit, []), time.before, time.after, time.now)
        bucket.flush()
        frame = _leaving(self._process, bucket.outcome, dead)
        if frame.height:
            yield Row(kind=ROWS, data=pack(frame))
        yield Row(kind=NOTE, data=json.dumps({"due": bucket.due}).encode())

    def close(self) -> None:
        return


def _by_commit(process: Process, frames: list[pl.DataFrame]) -> dict[int, list[Arrived]]:
    """Events by commit, in the order of the log, as code sees them."""
    if not frames:
        return {}
    rows = pl.concat(frames).sort("__commit", "__source", *_PLACE)
    columns = []
    for name, turn in zip(process.shape.event.names, process.shape.turns, strict=True):
        values = _plain(rows[f"e:{name}"]).to_list()
        columns.append(values if turn is None else list(map(turn, values)))
    events = zip(*columns, strict=True)
    times = rows["__at"].to_list() if process.timed else [None] * rows.height
    found: dict[int, list[Arrived]] = {}
    for commit, key, at, event in zip(rows["__commit"].to_list(), rows["__key"].to_list(), times, events, strict=True):
        found.setdefault(commit, []).append(Arrived(key, event, at))
    return found


def _plain(column: pl.Series) -> pl.Series:
    """A column as the model has its values: times as numbers."""
    inner: Any = column.dtype
    while isinstance(inner, pl.List):
        inner = inner.inner
    return column.to_physical() if inner.is_temporal() else column


def _leaving(process: Process, outcome: Outcome, dead: list[pl.DataFrame]) -> pl.DataFrame:
    """What a processor gave, with its dead letters and late events, as the log of its stream has it."""
    rows = [process.row(given) for given in outcome.rows]
    refused = [(process.shape.event_text(event.row), reason, kind == "late") for kind, event, reason in outcome.refused]
    refused += [(timer, reason, False) for _, timer, reason in outcome.failed]
    refused += [(row, reason, False) for frame in dead for row, reason in frame.iter_rows()]
    good, bad = len(rows), len(refused)
    physical = {"timestamp": pl.Int64(), "date": pl.Int32()}
    columns = []
    for number, (name, kind) in enumerate(process.schema):
        values = [row[number] for row in rows] + [None] * bad
        columns.append(pl.Series(name, values, dtype=physical.get(kind, dtype(kind))).cast(dtype(kind)))
    for place, (name, of) in enumerate(((MALFORMED, pl.String()), (REASON, pl.String()), (LATE, pl.Boolean()))):
        columns.append(pl.Series(name, [None] * good + [one[place] for one in refused], dtype=of))
    return pl.DataFrame(columns)
