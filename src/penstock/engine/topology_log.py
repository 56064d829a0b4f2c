"""The log of a stream that a topology gives: each epoch is jobs of its own, committed with what it remembers."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from penstock.engine.derived import EVENTS, Came, Memory, Step, Stepping
from penstock.engine.records import pack, unpack
from penstock.engine.topology_rows import dead_frame
from penstock.logs.base import MALFORMED, REASON
from penstock.model.stream import Stream
from penstock.model.time import END, Instant
from penstock.model.types import Schema
from penstock.store.memory import REMEMBERED
from penstock.topology.definition import Topology
from penstock.topology.epoch import Changes, Cycle, Settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("penstock.topology")


@dataclass(frozen=True, repr=False)
class TopologyLog(Stepping):
    """What a topology gives out. An epoch that takes longer than `target` seconds says which component was slowest."""

    topology: Topology
    target: float = 5.0
    name: str = ""
    folder: str | None = None
    limit: int = EVENTS
    run: str = field(default="", compare=False)

    @property
    def inputs(self) -> tuple[Stream, ...]:
        return self.topology.sources

    def at(self, folder: str, name: str) -> TopologyLog:
        return replace(self, folder=folder, name=name, run=uuid.uuid4().hex)

    def limited(self, limit: int) -> TopologyLog:
        return replace(self, limit=limit)

    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        return self.commits(spark, self.name)

    @contextmanager
    def step(self, came: Came, memory: Memory, now: Instant) -> Iterator[Step]:
        from penstock.engine.topology_jobs import SparkRunner
        from penstock.engine.topology_tasks import NOBODY, ROWS

        assert self.run, "components are told apart by the run that they are in"
        began = time.perf_counter()
        runner = SparkRunner(self.topology, came.frame, memory.of)
        try:
            settled = Cycle(self.topology, _Recall(memory), now, runner, self.run).settled()
            self._look(settled, time.perf_counter() - began)
            dead = [(NOBODY, 0, ROWS, pack(dead_frame(self.topology.schema, settled.dead)))] if settled.dead else []
            yield Step(
                runner.rows(dead), (END, settled.due), _frame(settled.changes), settled.counters, settled.notes
            )  # fmt: skip
        finally:
            runner.close()

    def _look(self, settled: Settled, seconds: float) -> None:
        """Back-pressure by name: an epoch that takes too long says which component took most of it."""
        told = settled.notes["topology"]
        told["seconds"] = round(seconds, 3)
        if seconds > self.target and "slowest" in told:
            spent = {name: did["seconds"] for name, did in told["components"].items()}
            _log.warning(
                "the topology «%s» took %.1f s for an epoch, its components %.1f s in all their tasks; "
                "the slowest is «%s» with %.1f s",
                self.topology.name, seconds, sum(spent.values()), told["slowest"], spent[told["slowest"]],
            )  # fmt: skip

    def decodes(self, schema: Schema) -> bool:
        return True

    def frames(self, rows: pl.DataFrame, schema: Schema) -> Iterator[pl.DataFrame]:
        for data in rows["data"]:
            yield unpack(data).select(*schema.names, MALFORMED, REASON)

    def __repr__(self) -> str:
        return f"topology({self.topology.name!r})"


class _Recall:
    """What a topology remembers, in the store."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def part(self, name: str) -> Mapping[bytes, bytes]:
        found = self._memory.all(name)
        return dict(zip(found["key"], found["value"], strict=True))


def _frame(changes: Changes) -> pl.DataFrame:
    parts, keys = zip(*changes, strict=True)
    return pl.DataFrame({"part": parts, "key": keys, "value": list(changes.values())}, schema=REMEMBERED)
