"""The jobs of an epoch of a topology: its levels, each an exchange and the tasks behind it.

What a level needs from the store, the state of the keys that come to it, is known when the level before it is done;
there one job ends and the next begins. Other levels follow one another in one job.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.runtime.derived.topologies.tasks import (
    NOBODY,
    OUTCOME,
    RECORD,
    ROWS,
    STATE,
    Bolting,
    Finding,
    Reading,
    Record,
    Spouting,
    as_batch,
    records,
)
from penstock.topology.definition import Topology
from penstock.topology.epoch import state_part
from penstock.topology.groupings import task_of
from penstock.topology.local import routed
from penstock.topology.orders import Message, Orders, Outcome
from penstock.topology.trees import Tree

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Reads the values of keys of a part of what is remembered.
Read = Callable[[str, Iterable[bytes]], dict[bytes, bytes]]


class SparkRunner:
    """Runs the tasks of one epoch as Spark jobs, and keeps what they gave until it is let go."""

    def __init__(self, topology: Topology, rows: DataFrame, read: Read) -> None:
        self._topology, self._rows, self._read = topology, rows, read
        self._session = rows.sparkSession
        self._kept: list[DataFrame] = []
        self._sources: DataFrame | None = None
        self._orders: Orders | None = None
        self._done: list[DataFrame] = []

    def run(self, orders: Orders, again: Mapping[int, Tree]) -> Outcome:
        self._orders = orders
        self._let_go(keep=self._sources)
        frame, outcome = self._spouts(orders), Outcome()
        if again:
            replayed = Outcome()
            for spout in self._topology.flows:
                rows = [(root, tree.values) for root, tree in again.items() if tree.spout == spout]
                routed(orders, spout, rows, replayed)
            frame = frame.union(self._local(records(replayed, orders)))
        for level in range(1, max(self._topology.levels.values()) + 1):
            bolts = self._topology.at(level)
            if any(bolt.is_stateful for bolt in bolts):
                frame = self._ended(frame, outcome)
                state = self._state(level, outcome)
                frame = frame.union(self._local(state)) if state else frame
            places = min(max(bolt.tasks for bolt in bolts), self._session.sparkContext.defaultParallelism)
            exchanged = frame.repartitionById(places, "slot")
            frame = exchanged.mapInArrow(Bolting(orders, level, places), RECORD)
        self._ended(frame, outcome)
        return outcome

    def _spouts(self, orders: Orders) -> DataFrame:
        """What spouts emit. Code is asked once an epoch, however often that is run."""
        if self._sources is not None:
            return self._sources
        spouts = self._topology.code_spouts
        frame = self._rows.mapInArrow(Reading(orders), RECORD) if self._topology.flows else None
        if spouts:
            tasks = [(name, task) for name, spout in spouts.items() for task in range(spout.tasks)]
            named = self._session.createDataFrame(tasks, "spout string, task int")
            places = min(len(tasks), self._session.sparkContext.defaultParallelism)
            made = named.repartitionById(places, "task").mapInArrow(Spouting(orders), RECORD)
            frame = made if frame is None else frame.union(made)
            assert frame is not None
            self._sources = frame = self._keep(frame)
        assert frame is not None
        return frame

    def _ended(self, frame: DataFrame, outcome: Outcome) -> DataFrame:
        """Ends a job: adds what its tasks report to the outcome, and passes on the tuples for later bolts."""
        kept = frame if frame is self._sources else self._keep(frame)
        for data in _outcomes(kept):
            outcome.add(pickle.loads(data))
        self._done.append(kept)
        return kept.where(f"level <> {NOBODY}")

    def _state(self, level: int, outcome: Outcome) -> list[Record]:
        """The state of the keys that come to a level, for the tasks that they come to."""
        state_records: list[Record] = []
        for bolt in self._topology.at(level):
            if bolt.is_stateful:
                held: dict[int, dict[bytes, bytes]] = {}
                for key, value in self._read(state_part(bolt.name), outcome.keys.get(bolt.name, ())).items():
                    held.setdefault(task_of(key, bolt.tasks), {})[key] = value
                state_records += [
                    (level, task, STATE, pickle.dumps((bolt.name, states))) for task, states in held.items()
                ]
        return state_records

    def messages(self, roots: set[int]) -> Mapping[int, Message]:
        if not self._topology.flows or self._orders is None:
            return {}
        outcome = Outcome()
        for data in _outcomes(self._rows.mapInArrow(Finding(self._orders, frozenset(roots)), RECORD)):
            outcome.add(pickle.loads(data))
        return outcome.messages

    def rows(self, dead: list[Record]) -> DataFrame:
        """The rows that leave, as records."""
        frames = [frame.where(f"kind = '{ROWS}'") for frame in self._done]
        made = frames[0]
        for frame in (*frames[1:], *([self._local(dead)] if dead else [])):
            made = made.union(frame)
        return made.select("kind", "data")

    def _local(self, rows: list[Record]) -> DataFrame:
        return self._session.createDataFrame(pa.Table.from_batches([as_batch(rows)]), RECORD)

    def _keep(self, frame: DataFrame) -> DataFrame:
        self._kept.append(frame.persist())
        return self._kept[-1]

    def _let_go(self, keep: DataFrame | None) -> None:
        for frame in self._kept:
            if frame is not keep:
                frame.unpersist()
        self._kept = [] if keep is None else [keep]
        self._done = []

    def close(self) -> None:
        self._let_go(None)


def _outcomes(frame: DataFrame) -> list[bytes]:
    """What tasks report to the driver."""
    return list(frame.where(f"kind = '{OUTCOME}'").select("data").toArrow().column(0).to_pylist())
