"""An epoch of a part of a processor's keys: events in, what the processor gave out, as binary records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice

import polars as pl

from penstock.kernel.expressions import dtype
from penstock.kernel.plan import PLACE
from penstock.model.process import Process
from penstock.model.processing import Processing
from penstock.runtime.derived.processors.bucket import Arrived, Bucket, Cells, Outcome
from penstock.runtime.derived.times import TIME, times_of
from penstock.runtime.epoch.wire import pack, plain, unpack
from penstock.sources.base import LATE, MALFORMED, REASON

#: What a record holds: events, dead letters of the steps before the processor; rows that it gave, and what to remember.
EVENTS, DEAD, ROWS, NOTE = "events", "dead", "rows", "note"


def handled(
    process: Process, processing: Processing, cells: Cells, records: Iterable[tuple[str, bytes]]
) -> Iterator[tuple[str, bytes]]:
    """What comes of the records of an epoch for a part of the keys."""
    times, events, dead = [], [], []
    for kind, data in records:
        if kind == TIME:
            times += times_of(data)
        elif kind == DEAD:
            dead.append(unpack(data))
        else:
            events.append(unpack(data))
    bucket = Bucket(process, processing, cells)
    arrived = _by_commit(process, events)
    bucket.load(event.key for some in arrived.values() for event in some)
    for time in times:
        bucket.commit(arrived.get(time.commit, []), time.before, time.after, time.now)
    bucket.flush()
    frame = _leaving(process, bucket.outcome, dead)
    if frame.height:
        yield ROWS, pack(frame)
    yield NOTE, json.dumps({"due": bucket.due}).encode()


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
