"""The log of a stream that a processor gives: what `transformWithState` made of other streams' commits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING

import polars as pl

from penstock.engine.derived import EVENTS, Derived, Due
from penstock.engine.records import unpack
from penstock.errors import PenstockError
from penstock.logs.base import LATE, MALFORMED, REASON
from penstock.model.process import Process
from penstock.model.stream import Stream
from penstock.model.time import END
from penstock.model.types import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, repr=False)
class ProcessLog(Derived):
    """What a processor gives, in `parts` parts of its keys; each is the work of one task at a time."""

    process: Process
    parts: int = 32
    name: str = ""
    folder: str | None = None
    limit: int = EVENTS

    @property
    def inputs(self) -> tuple[Stream, ...]:
        return self.process.input.sources

    def at(self, folder: str, name: str) -> ProcessLog:
        return replace(self, folder=folder, name=name)

    @property
    def settled(self) -> dict[str, str]:
        return {"parts": str(self.parts)}

    def limited(self, limit: int) -> ProcessLog:
        return replace(self, limit=limit)

    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        try:
            import_module("google.protobuf")
        except ImportError as error:
            raise PenstockError(
                "Spark speaks to the state of a processor by protobuf, which is not installed",
                hint="pip install 'penstock[spark]'",
            ) from error
        from penstock.engine.process_tasks import ENTERING, LEAVING, Entering, Operator

        entering = self.commits(spark, self.name).mapInArrow(Entering(self.process, self.parts), ENTERING)
        return entering.groupBy("bucket").transformWithState(Operator(self.process), LEAVING, "Append", "None")

    def due(self, rows: DataFrame) -> Due:
        notes = [json.loads(note)["due"] for (note,) in rows.where("kind = 'note'").select("data").collect()]
        event, clock = ((at for due in notes if (at := due[of]) is not None) for of in (0, 1))
        return min(event, default=END), min(clock, default=END)

    def decodes(self, schema: Schema) -> bool:
        return True

    def frames(self, rows: pl.DataFrame, schema: Schema) -> Iterator[pl.DataFrame]:
        for kind, data in rows.select("kind", "data").iter_rows():
            if kind == "rows":
                yield unpack(data).select(*schema.names, MALFORMED, REASON, LATE)

    def __repr__(self) -> str:
        return repr(self.process)
