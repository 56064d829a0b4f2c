"""The log of a stream that a processor gives: what `transformWithState` made of other streams' commits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

import polars as pl

from penstock.errors import PenstockError
from penstock.model.process import Process
from penstock.model.stream import Stream
from penstock.model.time import END
from penstock.model.types import Schema
from penstock.runtime.derived.base import Derived, Due, Rows
from penstock.runtime.derived.processors.rows import NOTE, ROWS
from penstock.runtime.epoch.wire import unpack
from penstock.sources.base import LATE, MALFORMED, REASON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.runtime.epoch.origin import EpochOrigin

#: What a part gives is few if it has no more bytes.
_FEW: Final = 64 << 10


@dataclass(frozen=True, repr=False)
class ProcessorSource(Derived):
    """What a processor gives, in `parts` parts of its keys; each is the work of one task at a time."""

    process: Process
    parts: int = 32

    @property
    def inputs(self) -> tuple[Stream, ...]:
        return self.process.input.sources

    @property
    def settled(self) -> dict[str, str]:
        return {"parts": str(self.parts)}

    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        try:
            import_module("google.protobuf")
        except ImportError as error:
            raise PenstockError(
                "Spark speaks to the state of a processor by protobuf, which is not installed",
                hint="pip install 'penstock[spark]'",
            ) from error
        from penstock.runtime.derived.processors.operator import LEAVING, Operator
        from penstock.runtime.derived.processors.tasks import ENTERING, Entering

        entering = self.commits(spark, self.name, (Entering(self.process, self.parts), ENTERING))
        return entering.groupBy("bucket").transformWithState(Operator(self.process), LEAVING, "Append", "None")

    @contextmanager
    def answer(self, rows: DataFrame, columns: Sequence[str], source: EpochOrigin) -> Iterator[tuple[Rows, Due | None]]:
        """The rows are here if all of its parts gave few."""
        kept = rows.persist()
        try:
            few = f"CASE WHEN kind = '{NOTE}' OR length(data) <= {_FEW} THEN data END AS data"
            found = kept.selectExpr("kind", few).toArrow()
            kinds, data = found.column("kind").to_pylist(), found.column("data").to_pylist()
            notes = [json.loads(one)["due"] for kind, one in zip(kinds, data, strict=True) if kind == NOTE]
            event, clock = ([due[of] for due in notes if due[of] is not None] for of in (0, 1))
            due = min(event, default=END), min(clock, default=END)
            yield (kept if None in data else found), due
        finally:
            kept.unpersist()

    def decodes(self, schema: Schema) -> bool:
        return True

    def frames(self, rows: pl.DataFrame, schema: Schema) -> Iterator[pl.DataFrame]:
        for kind, data in rows.select("kind", "data").iter_rows():
            if kind == ROWS:
                yield unpack(data).select(*schema.names, MALFORMED, REASON, LATE)

    def __repr__(self) -> str:
        return repr(self.process)
