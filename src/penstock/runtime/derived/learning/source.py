"""The log of a stream of predictions: each epoch is predicted by the model before it, then makes the next version.

The tasks predict and learn, each on its part of the rows; the updates come to the driver and are merged in the order of
the parts. The new version is committed with the epoch's predictions.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from penstock.kernel.expressions import dtype
from penstock.learning.definition import Learning
from penstock.learning.next_version import CHANGES, remembered
from penstock.learning.versions import head, in_force
from penstock.model.stream import Stream
from penstock.model.time import Instant
from penstock.model.types import Schema
from penstock.runtime.derived.base import Derived, EpochInput, Memory, Step
from penstock.runtime.derived.learning.tasks import DEAD, KEYS, RECORD, ROWS, UPDATE, Entering, Working
from penstock.runtime.derived.learning.tasks import EVENTS as EVENTS_OF
from penstock.runtime.epoch.wire import unpack
from penstock.sources.base import LATE, MALFORMED, REASON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, repr=False)
class LearnerSource(Derived):
    """What a model predicts."""

    learning: Learning

    @property
    def inputs(self) -> tuple[Stream, ...]:
        return self.learning.input.sources

    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        return self.commits(spark, self.name)

    @contextmanager
    def step(self, epoch_input: EpochInput, memory: Memory, now: Instant) -> Iterator[Step]:
        learning = self.learning
        entered = epoch_input.frame.mapInArrow(Entering(learning), RECORD).persist()
        try:
            before = head(memory)
            model = in_force(learning, memory, self._keys(entered))
            events = entered.where(f"kind IN ('{EVENTS_OF}', '{DEAD}')").repartition(learning.partitions, "part")
            worked = events.mapInArrow(Working(learning, model, before.version), RECORD).persist()
            try:
                records = worked.where(f"kind = '{UPDATE}'").collect()
                updates = [pickle.loads(row["data"]) for row in sorted(records, key=lambda row: int(row["part"]))]
                learned = sum(update.rows for update in updates)
                after, changes = before, pl.DataFrame(schema=CHANGES)
                if updates:
                    after, changes = remembered(learning, memory, model, updates, now)
                yield Step(
                    worked.where(f"kind = '{ROWS}'"), memory=changes, counters={"learned": learned},
                    notes={"version": after.version},
                )  # fmt: skip
            finally:
                worked.unpersist()
        finally:
            entered.unpersist()

    def _keys(self, entered: DataFrame) -> dict[str, pl.Series]:
        """The keys of the keyed parts that the epoch's rows have."""
        if not self.learning.keyed:
            return {}
        records = entered.where(f"kind = '{KEYS}'").collect()
        keys = {}
        for at, (part, column) in enumerate(self.learning.keyed.items()):
            kind = dtype(self.learning.event.type_of(column))
            part_keys = [unpack(bytes(row["data"]))["key"] for row in records if row["part"] == at]
            keys[part] = pl.concat([pl.Series("key", [], kind), *part_keys]).unique().sort()
        return keys

    def decodes(self, schema: Schema) -> bool:
        return True

    def frames(self, rows: pl.DataFrame, schema: Schema) -> Iterator[pl.DataFrame]:
        for data in rows["data"]:
            yield unpack(data).select(*schema.names, MALFORMED, REASON, LATE)

    def __repr__(self) -> str:
        return repr(self.learning)
