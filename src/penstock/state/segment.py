"""A segment: sorted, immutable rows of one kind of state, as a part of a file that processes map into memory.

A file has one part per segment. A part is an Arrow file with the rows, one with the windows that they belong to, and
two that list the rows by times: those at which they are due by the clock; and those at which they were touched last, or
are due by the watermark. The lengths of these stand at its end. Nothing in it is compressed.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.kernel.columns import END, START
from penstock.kernel.hashing import Array, hashes
from penstock.kernel.operators.base import DUE_MARK
from penstock.model.time import BEGINNING, Instant
from penstock.model.time import END as FOREVER
from penstock.state.durable_file import DurableFile
from penstock.state.layout import DUE, FINAL, GONE, HASH, TOUCHED, Kind, Layout

_LENGTHS: Final = struct.Struct("<qqqq")
_OLDEST: Final = pl.CompatLevel.oldest()
#: A segment has one of these, if any.
_EVENT_TIMES: Final = (TOUCHED, DUE_MARK)
#: Hashes are listed as signed numbers in the same order.
_SHIFT: Final = 1 << 63


class SegmentError(PenstockError):
    """A segment cannot be read."""


class MissingSegment(SegmentError):
    """A file is gone: it was replaced, and the reader has an old list."""


@dataclass(frozen=True)
class Segment:
    """What the store lists of a segment.

    `owner` is the view or stream. `run` is its age: of two versions of a row that of the higher run holds. `low` and
    `high` are the smallest and largest hash, shifted to signed numbers. `first_end` is the smallest end of an open
    window, `last_end` the largest end of any; `due` the smallest processing time at which a row is due.
    """

    owner: str
    kind: Kind
    run: int
    path: str
    offset: int
    length: int
    rows: int
    gone: int
    low: int
    high: int
    first_end: Instant
    last_end: Instant
    due: Instant
    checksum: int

    def text(self) -> str:
        """As JSON, for the way from a task to the driver."""
        return json.dumps(asdict(self))

    @classmethod
    def parsed(cls, text: str) -> Segment:
        return cls(**json.loads(text))


@dataclass(frozen=True)
class HashRange:
    """A shard: the keys whose hash lies from `low` up to `high`, both included."""

    low: int = 0
    high: int = (1 << 64) - 1

    @property
    def is_all(self) -> bool:
        return self == ALL

    def meets(self, segment: Segment) -> bool:
        """Whether a segment may have rows of this shard."""
        return segment.low + _SHIFT <= self.high and segment.high + _SHIFT >= self.low


ALL: Final = HashRange()


def shards(count: int) -> list[HashRange]:
    """Shards of equal size.

    >>> [hex(shard.low) for shard in shards(4)]
    ['0x0', '0x4000000000000000', '0x8000000000000000', '0xc000000000000000']
    """
    bounds = [(number << 64) // count for number in range(count + 1)]
    return [HashRange(low, high - 1) for low, high in pairwise(bounds)]


# writing


@dataclass(frozen=True)
class EncodedRows:
    """The bytes of a segment, and what is listed of it."""

    data: pa.Buffer
    segment: Segment


def encoded(owner: str, layout: Layout, run: int, rows: pl.DataFrame, gone: pl.DataFrame | None = None) -> EncodedRows:
    """Rows as a segment. `gone` has the identity of rows that are deleted."""
    frame = rows if GONE in rows.columns else rows.with_columns(pl.lit(False).alias(GONE))
    table, keys = frame.to_arrow(compat_level=_OLDEST), frame.select(layout.keys)
    if gone is not None and gone.height:
        gone = gone.select(layout.identity)
        deleted = gone.with_columns(pl.lit(True).alias(GONE)).to_arrow(compat_level=_OLDEST)
        table = pa.concat_tables([table, deleted], promote_options="default")
        keys = pl.concat([keys, gone.select(layout.keys)])
    hashed = hashes(keys) if layout.keys else np.zeros(table.num_rows, np.uint64)
    return _encoded(owner, layout, run, table, hashed)


def _encoded(owner: str, layout: Layout, run: int, table: pa.Table, hashed: Array) -> EncodedRows:
    # Arrow puts the rows in order: Polars corrupts memory when it takes rows of lists that were appended to nulls.
    if layout.by_window:
        order = np.lexsort((hashed, table.column(START).to_numpy(), table.column(END).to_numpy()))
    else:
        order = np.argsort(hashed, kind="stable")
    hashed, table = hashed[order], table.combine_chunks().take(pa.array(order))
    table = table.add_column(0, HASH, pa.array(hashed))
    names = [name for name in (START, END, GONE, FINAL, DUE, *_EVENT_TIMES) if name in table.column_names]
    frame = pl.from_arrow(table.select(names))
    assert isinstance(frame, pl.DataFrame)
    event_time = DUE_MARK if DUE_MARK in names else TOUCHED
    times = (_by_time(frame, DUE), _by_time(frame, event_time))
    data = _packed([table, _windows(layout, frame), *times])
    live = frame.filter(~pl.col(GONE))
    ends = live.filter(~pl.col(FINAL))[END] if FINAL in names else pl.Series(dtype=pl.Int64)
    due = live[DUE].min() if DUE in names else None
    last_end = frame[END].max() if END in names else None
    segment = Segment(
        owner, layout.kind, run, "", 0, data.size, frame.height, frame.height - live.height,
        int(hashed.min()) - _SHIFT if len(hashed) else 0, int(hashed.max()) - _SHIFT if len(hashed) else 0,
        _instant(ends.min(), FOREVER), _instant(last_end, BEGINNING), _instant(due, FOREVER), zlib.crc32(data),
    )  # fmt: skip
    return EncodedRows(data, segment)


def _instant(value: object, otherwise: Instant) -> Instant:
    return value if isinstance(value, int) else otherwise


def _windows(layout: Layout, frame: pl.DataFrame) -> pa.Table:
    """Where each window begins."""
    if not layout.by_window or not frame.height:
        return pa.table(
            {"end": pa.array([], pa.int64()), "start": pa.array([], pa.int64()), "first": pa.array([], pa.int64())}
        )
    ends, starts = frame[END].to_numpy(), frame[START].to_numpy()
    first = np.flatnonzero(np.append(True, (ends[1:] != ends[:-1]) | (starts[1:] != starts[:-1])))
    return pa.table({"end": ends[first], "start": starts[first], "first": first.astype(np.int64)})


def _by_time(frame: pl.DataFrame, column: str) -> pa.Table:
    """The rows that have a time in a column, in the order of these times."""
    if column not in frame.columns:
        return pa.table({"time": pa.array([], pa.int64()), "row": pa.array([], pa.int64())})
    timed = frame.select(column).with_row_index("row").drop_nulls().sort(column)
    return pa.table({"time": timed[column].to_numpy(), "row": timed["row"].cast(pl.Int64).to_numpy()})


def _packed(tables: Sequence[pa.Table]) -> pa.Buffer:
    """Tables as Arrow files, one after the other, and their lengths. The bytes are copied once: there may be many."""
    tables = [table.combine_chunks() for table in tables]
    lengths = []
    for table in tables:
        sizing = pa.MockOutputStream()
        _write(table, sizing)
        lengths.append(sizing.size())
    data = np.empty(sum(lengths) + _LENGTHS.size, np.uint8)
    begin = 0
    for table, length in zip(tables, lengths, strict=True):
        _write(table, pa.FixedSizeBufferWriter(pa.py_buffer(data[begin : begin + length])))
        begin += length
    data[begin:] = np.frombuffer(_LENGTHS.pack(*lengths), np.uint8)
    return pa.py_buffer(data)


def _write(table: pa.Table, sink: pa.NativeFile) -> None:
    with pa.ipc.new_file(sink, table.schema) as writer:
        for batch in table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]:
            writer.write_batch(batch)


class SegmentFile:
    """A file of segments in the making. It is forced to disk before its segments are listed.

    Used with `with`, it leaves nothing behind unless it was closed.
    """

    def __init__(self, root: str, name: str) -> None:
        self._name, self._file = name, DurableFile(Path(root) / name)
        self._listed: list[Segment] = []

    def add(self, rows: EncodedRows) -> None:
        """Writes a segment, if it has rows."""
        if not rows.segment.rows:
            return
        begin = self._file.write(rows.data)
        self._listed.append(replace(rows.segment, path=self._name, offset=begin))
        self._file.write(b"\0" * (-(begin + rows.data.size) % 64))  # Arrow's buffers are aligned

    def close(self) -> list[Segment]:
        """Forces the file to disk; what is to be listed of it. Without rows there is no file."""
        self._file.close()
        return self._listed

    def __enter__(self) -> SegmentFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.__exit__(*error)


# reading


class MappedSegment:
    """A segment in memory: pages that other processes share."""

    def __init__(self, root: str, segment: Segment) -> None:
        self.segment = segment
        try:
            with pa.memory_map(str(Path(root) / segment.path)) as file:
                file.seek(segment.offset)
                data = file.read_buffer(segment.length)
        except (FileNotFoundError, OSError) as error:
            raise MissingSegment(f"the segment '{segment.path}' cannot be read", detail=str(error)) from error
        if data.size != segment.length:
            raise SegmentError(f"the segment '{segment.path}' is shorter than listed")
        self._data = data
        try:
            lengths = _LENGTHS.unpack(data.slice(data.size - _LENGTHS.size))
            begins = [sum(lengths[:number]) for number in range(len(lengths))]
            tables = [_batch(data.slice(begin, length)) for begin, length in zip(begins, lengths, strict=True)]
        except (struct.error, pa.ArrowInvalid, OSError) as error:
            raise SegmentError(f"the segment '{segment.path}' is damaged", detail=str(error)) from error
        self.batch, windows, *times = tables
        self.hashes: Array = self.batch.column(HASH).to_numpy(zero_copy_only=True)
        self.ends: Array = windows.column("end").to_numpy(zero_copy_only=True)
        self.starts: Array = windows.column("start").to_numpy(zero_copy_only=True)
        self.firsts: Array = np.append(windows.column("first").to_numpy(zero_copy_only=True), self.batch.num_rows)
        by_clock, by_event = (_index(table) for table in times)
        self._times = {DUE: by_clock, **dict.fromkeys(_EVENT_TIMES, by_event)}

    def check(self) -> None:
        """Refuses a segment whose bytes are not those that were written."""
        if zlib.crc32(self._data) != self.segment.checksum:
            raise SegmentError(
                f"the segment '{self.segment.path}' is damaged", hint="restore a savepoint, or compute the view again"
            )

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The smallest and the largest hash."""
        return np.uint64(self.segment.low + _SHIFT), np.uint64(self.segment.high + _SHIFT)  # type: ignore[return-value]

    @property
    def columns(self) -> list[str]:
        names: list[str] = self.batch.schema.names
        return names

    def take(self, positions: Array, columns: Sequence[str]) -> pl.DataFrame:
        """Rows by their positions."""
        batch = self.batch.select(list(columns)).take(pa.array(positions))
        frame = pl.from_arrow(batch)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def slice(self, first: int, last: int, columns: Sequence[str]) -> pl.DataFrame:
        """Rows that lie together."""
        frame = pl.from_arrow(self.batch.select(list(columns)).slice(first, last - first))
        assert isinstance(frame, pl.DataFrame)
        return frame

    def windows(self) -> Iterator[tuple[Instant, Instant, int, int]]:
        """End, start and positions of each window; of one that says nothing where rows lie by hash."""
        if not len(self.ends):
            yield 0, 0, 0, self.batch.num_rows
        for number in range(len(self.ends)):
            yield (
                int(self.ends[number]),
                int(self.starts[number]),
                int(self.firsts[number]),
                int(self.firsts[number + 1]),
            )

    def window(self, end: Instant, start: Instant) -> tuple[int, int] | None:
        """Where a window's rows lie."""
        first, last = np.searchsorted(self.ends, end), np.searchsorted(self.ends, end, side="right")
        number = first + np.searchsorted(self.starts[first:last], start)
        if number == last or self.starts[number] != start:
            return None
        return int(self.firsts[number]), int(self.firsts[number + 1])

    def within(self, first: int, last: int, shard: HashRange) -> tuple[int, int]:
        """The part of sorted rows that a shard has."""
        if shard.is_all:
            return first, last
        part = self.hashes[first:last]
        low = int(np.searchsorted(part, np.uint64(shard.low)))
        high = int(np.searchsorted(part, np.uint64(shard.high), side="right"))
        return first + low, first + high

    def between(self, column: str, after: Instant, through: Instant) -> Array:
        """Positions of rows that have a time in this column after one, up to another."""
        values, rows = self._times[column]
        first = np.searchsorted(values, after, side="right")
        return rows[first : np.searchsorted(values, through, side="right")]

    def times(self, column: str) -> tuple[Array, Array]:
        """The times in a column in order, and the positions of the rows that have them."""
        return self._times[column]


def _index(table: pa.RecordBatch) -> tuple[Array, Array]:
    """Times in order, and the rows that have them."""
    return table.column("time").to_numpy(zero_copy_only=True), table.column("row").to_numpy(zero_copy_only=True)


def _batch(data: pa.Buffer) -> pa.RecordBatch:
    return pa.ipc.open_file(pa.BufferReader(data)).get_batch(0)


def paths(segments: Iterable[Segment]) -> list[str]:
    """The files of segments, each once."""
    return list(dict.fromkeys(segment.path for segment in segments))
