"""What `transformWithState` runs on a part of a processor's keys.

Spark unpickles it in a process of its own when a query starts, only to ask what state there is: so this imports little.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import polars as pl
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from penstock.engine.process_bucket import Arrived, Bucket, Outcome
from penstock.engine.records import pack, plain, unpack
from penstock.engine.state_pipe import Texts
from penstock.engine.times import TIME, times_of
from penstock.kernel.expressions import dtype
from penstock.logs.base import LATE, MALFORMED, REASON
from penstock.model.process import Process
from penstock.model.processing import Processing

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import TimerValues, ValueState

LEAVING: Final = "kind string, data binary"
#: What a record holds: events, dead letters of the steps before the processor; rows that it gave, and what to remember.
EVENTS, DEAD, ROWS, NOTE = "events", "dead", "rows", "note"
PLACE: Final = ("__partition", "__offset")


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
    rows = pl.concat(frames).sort("__commit", "__source", *PLACE)
    columns = []
    for name, turn in zip(process.shape.event.names, process.shape.turns, strict=True):
        values = plain(rows[f"e:{name}"]).to_list()
        columns.append(values if turn is None else [None if value is None else turn(value) for value in values])
    events = map(process.shape.make_event._make, zip(*columns, strict=True))
    times = rows["__at"].to_list() if process.timed else [None] * rows.height
    arrived = map(Arrived, rows["__key"].to_list(), events, times)
    counts = rows.group_by("__commit", maintain_order=True).len()
    return {commit: list(islice(arrived, count)) for commit, count in counts.iter_rows()}


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
