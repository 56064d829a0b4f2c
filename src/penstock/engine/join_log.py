"""The log of a stream that two others are joined into, by Spark's own operator, with its state in RocksDB."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from penstock.engine.derived import EVENTS, NEVER, Derived, Due, Rows
from penstock.logs.base import LATE, MALFORMED, REASON, Folder, Follower
from penstock.model.join import StreamJoin
from penstock.model.stream import Stream
from penstock.model.time import END, SECOND
from penstock.model.types import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DISK, MEMORY = "disk", "memory"
_MEMORY = {
    "spark.sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "spark.sql.streaming.join.stateFormatVersion": "2",
}  # fmt: skip
_HOWS = {"inner": "inner", "left": "left_outer", "right": "right_outer", "full": "full_outer"}


@dataclass(frozen=True, repr=False)
class JoinLog(Derived):
    """What a join of two streams gives; its state lies on disk, or in memory."""

    join: StreamJoin
    state: str = DISK
    name: str = ""
    folder: str | None = None
    limit: int = EVENTS

    @property
    def inputs(self) -> tuple[Stream, ...]:
        return self.join.inputs

    def at(self, folder: str, name: str) -> JoinLog:
        return replace(self, folder=folder, name=name)

    @property
    def settled(self) -> dict[str, str]:
        return {"state": self.state}

    def settings(self, alone: bool) -> Mapping[str, str]:
        return _MEMORY if self.state == MEMORY else super().settings(alone)

    def limited(self, limit: int) -> JoinLog:
        return replace(self, limit=limit)

    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        from pyspark.sql import functions as f

        from penstock.engine.join_tasks import NOTE, JoinCommits, Refusing

        left, right = self._side(spark, 0), self._side(spark, 1)
        found = left.join(right, f.expr(self._condition()), _HOWS[self.join.how])
        taken = [
            (f.coalesce(f"`l:{own}`", f"`r:{own}`") if side == 2 else f.col(f"`{'lr'[side]}:{own}`")).alias(name)
            for name, side, own in self.join.gives
        ]
        nothing = [f.lit(None).cast(kind).alias(name) for name, kind in
                   ((MALFORMED, "string"), (REASON, "string"), (LATE, "boolean"), (NOTE, "bigint"))]  # fmt: skip
        refusing = Refusing(self.join)
        only = json.dumps([stream.name for stream in self.inputs])
        refused = self.commits(spark, self.name, (refusing, refusing.ddl), JoinCommits, only=only)
        return found.select(*taken, *nothing).unionByName(refused)

    def _side(self, spark: SparkSession, number: int) -> DataFrame:
        from penstock.engine.join_tasks import AHEAD_DAYS, MARK, JoinCommits, Side

        side, letter = Side(self.join, number), "lr"[number]
        flow = (self.join.left, self.join.right)[number]
        only = json.dumps([stream.name for stream in flow.sources])
        rows = self.commits(spark, self.name, (side, side.ddl), JoinCommits, only=only)
        rows = rows.withColumnRenamed("__at", f"__{letter}_at").withWatermark(f"__{letter}_at", f"{AHEAD_DAYS} days")
        # It names the event time, so that Spark does it after it has looked at the rows of time.
        rows = rows.where(f"CASE WHEN `__{letter}_at` IS NULL THEN false ELSE NOT `{MARK}` END").drop(MARK)
        return rows.withColumnsRenamed({f"__k{n}": f"{letter}:__k{n}" for n in range(len(self.join.on))})

    def _condition(self) -> str:
        keys = [f"`l:__k{n}` = `r:__k{n}`" for n in range(len(self.join.on))]
        if self.join.window is not None:
            return " AND ".join([*keys, "`__l_at` = `__r_at`"])
        bounds = f"`__r_at` >= `__l_at` + {_interval(self.join.earliest)}"
        return " AND ".join([*keys, bounds, f"`__r_at` <= `__l_at` + {_interval(self.join.latest)}"])

    def answer(self, rows: DataFrame) -> tuple[Rows, Due | None]:
        """Events that found none are given out as time passes: each step of it must be told.

        Spark gives them out in the epoch after the one that was told: at once, in one that brings nothing new.
        """
        if self.join.how == "inner":
            return rows, NEVER
        from penstock.engine.join_tasks import NOTE

        (mark,) = rows.selectExpr(f"max(`{NOTE}`)").collect()[0]
        return rows, None if mark is None else (mark + 1, END)

    def decodes(self, schema: Schema) -> bool:
        return True

    def frames(self, rows: pl.DataFrame, schema: Schema) -> Iterator[pl.DataFrame]:
        from penstock.engine.join_tasks import NOTE

        yield rows.filter(pl.col(NOTE).is_null()).select(*schema.names, MALFORMED, REASON, LATE)

    def behind(self, offsets: str, latest: Any) -> int | None:
        return super().behind(offsets.splitlines()[0], latest)

    def follow(self, checkpoint: Folder) -> Follower:
        return _First(super().follow(checkpoint))

    def __repr__(self) -> str:
        return repr(self.join)


class _First(Follower):
    """Follows the first of the sources that the query reads: all read the same commits."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def reading(self, offsets: str) -> None:
        self._follower.reading(offsets.splitlines()[0])
        self.taken = self._follower.taken


def _interval(span: int) -> str:
    return f"INTERVAL '{'-' if span < 0 else ''}{abs(span) // SECOND}.{abs(span) % SECOND:06}' SECOND"
