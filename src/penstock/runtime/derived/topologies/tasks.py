"""A topology in Spark's tasks: events of the history on their way to bolts, and the bolts.

Tuples pass through Spark as a few binary records, one for each task of a bolt that a task has emitted something for. So
what a tuple costs is what the user's code costs.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.model.stream import Flow
from penstock.process_state import RecentlyUsed, process
from penstock.runtime.derived.arrivals import Arriving
from penstock.runtime.derived.topologies.rows import dead_frame, rows_frame
from penstock.runtime.derived.topologies.values import keyed, python_rows, roots_of
from penstock.runtime.epoch.job import task_number
from penstock.runtime.epoch.wire import pack, record_batch, unpack
from penstock.topology.collector import Packet, Task
from penstock.topology.definition import BoltOf
from penstock.topology.groupings import Grouping
from penstock.topology.orders import Message, Metrics, Orders, Outcome
from penstock.topology.stage import Crew, Stage
from penstock.topology.tuples import DEFAULT

#: A record: which level it is for, which task there (or where it lies, for one that no bolt takes), and what it is.
RECORD: Final = "level int, slot int, kind string, data binary"
_RECORD: Final = pa.schema([("level", pa.int32()), ("slot", pa.int32()), ("kind", pa.string()), ("data", pa.binary())])
#: What a record holds: tuples, the state of keys; rows that leave the topology, and what tasks tell the driver.
TUPLES, STATE, ROWS, OUTCOME = "tuples", "state", "rows", "outcome"
NOBODY: Final = -1
Record: TypeAlias = tuple[int, int, str, bytes]

#: How many runs may have components that are ready in this process.
_MOST_RUNS: Final = 8
#: After how many objects Python looks for cycles: each look goes over all tuples that there are.
_OBJECTS: Final = 1_000_000


class Crews(RecentlyUsed[str, Crew]):
    """The components that are ready in this process, by the run of an app that they belong to."""

    def __init__(self) -> None:
        super().__init__(_MOST_RUNS, Crew.dismiss)

    def close(self) -> None:
        """The process ends: components may clean up."""
        self.clear()


def crew_of(run: str) -> Crew:
    """The components that are ready in this process for a run of an app."""
    return process.of(Crews).made(run, lambda _: Crew())


@contextmanager
def _many_objects() -> Iterator[None]:
    """In here many small objects are made, and few of them are cycles."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@dataclass(frozen=True)
class Reading:
    """Reads what commits brought, for the spouts that are streams, and divides it among the tasks of bolts."""

    orders: Orders

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept, outcome = list(batches), Outcome()
        for spout, flow in self.orders.topology.flows.items():
            for rows in arrived(flow, kept):
                dead = rows.filter(pl.col("__reason").is_not_null())
                if dead.height:
                    frame = dead_frame(self.orders.topology.schema, dead.select("__row", "__reason").rows())
                    yield as_batch([(NOBODY, 0, ROWS, pack(frame))])
                good = rows.filter(pl.col("__reason").is_null())
                if good.height:
                    yield as_batch(self._routed(spout, good, outcome))
        yield as_batch([_outcome_record(outcome)])

    def _routed(self, spout: str, rows: pl.DataFrame, outcome: Outcome) -> list[Record]:
        """The events of a spout as tuples for all who take them."""
        topology = self.orders.topology
        names = topology.fields(spout, DEFAULT).names
        outcome.metrics.setdefault(spout, Metrics()).emitted += rows.height
        tuple_records: list[Record] = []
        roots = roots_of(spout, rows) if topology.tracking != "none" else None
        trees = np.zeros(rows.height, np.uint64)
        for number, (bolt, grouping) in enumerate(topology.takers(spout, DEFAULT)):
            tuples = rows.select(names)
            if roots is not None:
                tuples = tuples.with_columns(pl.Series("__root", roots))
            for task, places in self._divided(bolt, grouping, rows, outcome):
                own_tuples = tuples if places is None else tuples[places]
                if topology.tracking == "track":
                    ids = self._ids(number, task, own_tuples.height, rows)
                    own_tuples = own_tuples.with_columns(pl.Series("__id", ids))
                    if places is None:
                        trees ^= ids
                    else:
                        trees[places] ^= ids
                head = (bolt.name, task, spout, DEFAULT, task_number())
                tuple_records.append((topology.levels[bolt.name], task, TUPLES, pickle.dumps((head, pack(own_tuples)))))
        if roots is not None and topology.tracking == "track":
            outcome.trees.update(zip(roots.tolist(), trees.tolist(), strict=True))
        return tuple_records

    def _divided(
        self, bolt: BoltOf, grouping: Grouping, rows: pl.DataFrame, outcome: Outcome
    ) -> Iterator[tuple[int, np.ndarray[Any, Any] | None]]:
        """The tasks of a bolt that rows go to, and which; None: all of them."""
        if grouping.kind == "all":
            yield from ((task, None) for task in range(bolt.tasks))
        elif grouping.kind == "global" or (bolt.tasks == 1 and not bolt.is_stateful):
            yield 0, None
        elif grouping.kind == "fields":
            fields = self.orders.topology.fields(grouping.source, DEFAULT)
            tasks, keys = keyed(rows, grouping.fields, fields, bolt.tasks)
            if bolt.is_stateful:
                outcome.keys.setdefault(bolt.name, set()).update(keys)
            for task in np.unique(tasks).tolist():
                yield task, np.flatnonzero(tasks == task)
        else:
            first = self.orders.epoch + task_number()
            for task in range(min(bolt.tasks, rows.height)):
                yield (first + task) % bolt.tasks, np.arange(task, rows.height, bolt.tasks)

    def _ids(self, number: int, task: int, count: int, rows: pl.DataFrame) -> np.ndarray[Any, Any]:
        """Ids that are the same when the epoch is read again."""
        place = (rows["__partition"][0], rows["__offset"][0])
        seed = np.random.SeedSequence([self.orders.epoch, number, task, abs(place[0]), abs(place[1])])
        return np.random.default_rng(seed).integers(1, 1 << 64, count, np.uint64)


@dataclass(frozen=True)
class Finding:
    """Looks for the events of this epoch that began certain trees."""

    orders: Orders
    roots: frozenset[int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept, outcome = list(batches), Outcome()
        wanted = np.array(sorted(self.roots), np.uint64)
        for spout, flow in self.orders.topology.flows.items():
            for rows in arrived(flow, kept):
                good = rows.filter(pl.col("__reason").is_null())
                roots = roots_of(spout, good)
                places = np.flatnonzero(np.isin(roots, wanted))
                values = python_rows(good[places], self.orders.topology.fields(spout, DEFAULT))
                for root, row in zip(roots[places].tolist(), values, strict=True):
                    outcome.messages[root] = Message(spout, 0, None, row)
        yield as_batch([_outcome_record(outcome)])


@dataclass(frozen=True)
class Spouting:
    """Runs the tasks of spouts that are code: each row names one."""

    orders: Orders

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spouts = self.orders.topology.code_spouts
        stage = Stage(self.orders, crew_of(self.orders.run))
        with _many_objects():
            for batch in batches:
                for name, task in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                    stage.spout(spouts[name], task)
            made = as_batch(records(stage.outcome, self.orders))
        yield made


@dataclass(frozen=True)
class Bolting:
    """Runs the tasks of bolts of one level that are at one place; tuples for other levels pass through."""

    orders: Orders
    level: int
    places: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with _many_objects():
            yield from self._run(batches)

    def _run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packets: dict[Task, list[Packet]] = {}
        state: dict[str, dict[bytes, bytes]] = {}
        for batch in batches:
            passing: list[Record] = []
            for record in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                level, _, kind, data = record
                if level != self.level:
                    passing.append(record)
                elif kind == STATE:
                    bolt, held = pickle.loads(data)
                    state.setdefault(bolt, {}).update(held)
                else:
                    bolt, task, packet = self._opened(data)
                    packets.setdefault((bolt, task), []).append(packet)
            if passing:
                yield as_batch(passing)
        here = task_number()
        stage = Stage(self.orders, crew_of(self.orders.run))
        stage.bolts(self.level, packets, lambda task: task % self.places == here, state)
        yield as_batch(records(stage.outcome, self.orders))

    def _opened(self, data: bytes) -> tuple[str, int, Packet]:
        (bolt, task, source, stream, sender), content = pickle.loads(data)
        if not isinstance(content, bytes):
            return bolt, task, Packet(source, stream, sender, *content)
        frame = unpack(content)
        values = python_rows(frame, self.orders.topology.fields(source, stream))
        roots, ids = (frame[name].to_list() if name in frame.columns else None for name in ("__root", "__id"))
        return bolt, task, Packet(source, stream, sender, values, roots, ids)


def arrived(flow: Flow, batches: list[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """The events of a flow that commits brought."""
    for batch in Arriving(flow)(batches):
        frame = pl.from_arrow(batch)
        assert isinstance(frame, pl.DataFrame)
        yield frame


def records(outcome: Outcome, orders: Orders) -> list[Record]:
    """The results of tasks, as records."""
    topology = orders.topology
    all_records: list[Record] = []
    for bolt, task, packet in outcome.packets:
        head, content = (bolt, task, *packet[:3]), packet[3:]
        all_records.append((topology.levels[bolt], task, TUPLES, pickle.dumps((head, content), protocol=5)))
    if outcome.rows:
        frame = rows_frame(topology, outcome.rows)
        all_records.append((NOBODY, 0, ROWS, pack(frame)))
    return [*all_records, _outcome_record(outcome)]


def _outcome_record(outcome: Outcome) -> Record:
    """The part of the results that the driver needs."""
    return NOBODY, 0, OUTCOME, pickle.dumps(replace(outcome, packets=[], rows={}), protocol=5)


def as_batch(rows: list[Record]) -> pa.RecordBatch:
    return record_batch(_RECORD, rows)
