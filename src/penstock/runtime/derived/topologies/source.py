"""The log of a stream that a topology gives: each epoch is jobs of its own, committed with what it remembers."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from penstock.model.stream import Stream
from penstock.model.time import END, Instant
from penstock.model.types import Schema
from penstock.runtime.derived.base import Derived, EpochInput, Memory, Step
from penstock.runtime.derived.topologies.rows import dead_frame
from penstock.runtime.epoch.wire import pack, unpack
from penstock.runtime.errors import RunError
from penstock.sources.base import MALFORMED, REASON
from penstock.store.memory import REMEMBERED
from penstock.store.signed import Signer
from penstock.topology.definition import Topology
from penstock.topology.epoch import Changes, Cycle, EpochResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("penstock.topology")


@dataclass(frozen=True, repr=False)
class TopologySource(Derived):
    """The output of a topology. An epoch that takes longer than `target` seconds logs its slowest component."""

    topology: Topology
    target: float = 5.0
    run: str = field(default="", compare=False)

    @property
    def inputs(self) -> tuple[Stream, ...]:
        return self.topology.sources

    def placed(self, directory: Path, stream: str, schema: Schema) -> TopologySource:
        return replace(super().placed(directory, stream, schema), run=uuid.uuid4().hex)

    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        return self.commits(spark, self.name)

    @contextmanager
    def step(self, epoch_input: EpochInput, memory: Memory, now: Instant) -> Iterator[Step]:
        from penstock.runtime.derived.topologies.jobs import SparkRunner
        from penstock.runtime.derived.topologies.tasks import NOBODY, ROWS

        assert self.run, "the run identifies the components of an app"
        assert self.folder is not None
        began = time.perf_counter()
        recall = _Recall(memory, Signer(Path(self.folder)))
        runner = SparkRunner(self.topology, epoch_input.frame, recall.of)
        try:
            settled = Cycle(self.topology, recall, now, runner, self.run).settled()
            self._look(settled, time.perf_counter() - began)
            dead = [(NOBODY, 0, ROWS, pack(dead_frame(self.topology.schema, settled.dead)))] if settled.dead else []
            yield Step(
                runner.rows(dead), (END, settled.due), recall.frame(settled.changes), settled.counters, settled.notes
            )  # fmt: skip
        finally:
            runner.close()

    def _look(self, settled: EpochResult, seconds: float) -> None:
        """Logs the slowest component of an epoch that takes too long."""
        note = settled.notes["topology"]
        note["seconds"] = round(seconds, 3)
        if seconds > self.target and "slowest" in note:
            spent = {name: did["seconds"] for name, did in note["components"].items()}
            _log.warning(
                "the topology '%s' took %.1f s for an epoch, its components %.1f s in all their tasks; "
                "the slowest is '%s' with %.1f s",
                self.topology.name, seconds, sum(spent.values()), note["slowest"], spent[note["slowest"]],
            )  # fmt: skip

    def decodes(self, schema: Schema) -> bool:
        return True

    def frames(self, rows: pl.DataFrame, schema: Schema) -> Iterator[pl.DataFrame]:
        for data in rows["data"]:
            yield unpack(data).select(*schema.names, MALFORMED, REASON)

    def __repr__(self) -> str:
        return f"topology({self.topology.name!r})"


class _Recall:
    """The memory of a topology, in the store. It is pickled, so anything that this app has not signed is rejected."""

    def __init__(self, memory: Memory, signer: Signer) -> None:
        self._memory, self._signer = memory, signer

    def part(self, name: str) -> Mapping[bytes, bytes]:
        rows = self._memory.all(name)
        return self._verified(name, zip(rows["key"], rows["value"], strict=True))

    def of(self, part: str, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        return self._verified(part, self._memory.of(part, keys).items())

    def frame(self, changes: Changes) -> pl.DataFrame:
        """The memory to store, signed."""
        rows = [
            (part, key, None if value is None else self._signer.sign(value, *self._use(part, key)))
            for (part, key), value in changes.items()
        ]
        return pl.DataFrame(rows, schema=REMEMBERED, orient="row")

    def _verified(self, part: str, rows: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
        values = {key: self._signer.verified(value, *self._use(part, key)) for key, value in rows}
        if None in values.values():
            raise RunError(
                f"what the topology '{self._memory.stream}' remembers was not written by this app",
                detail="it is pickled Python, and can hold code",
                hint="if you know where the store comes from: penstock trust --dir DIR",
            )
        return {key: value for key, value in values.items() if value is not None}

    def _use(self, part: str, key: bytes) -> tuple[str | bytes, ...]:
        return "memory", self._memory.stream, part, key
