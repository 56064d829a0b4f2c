"""The log of a stream that two others are joined into, by Spark's own operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.model.join import StreamJoin
from penstock.model.stream import Stream
from penstock.model.time import END, SECOND
from penstock.model.types import Schema
from penstock.runtime.derived.base import NEVER, Derived, Due, Rows, between
from penstock.runtime.derived.times import Time, times_of
from penstock.sources.base import LATE, MALFORMED, REASON, Folder, Follower

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.runtime.derived.commits import Part
    from penstock.runtime.derived.joins.tasks import Side
    from penstock.runtime.epoch.origin import EpochOrigin

DISK, MEMORY = "disk", "memory"
_MEMORY = {
    "spark.sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "spark.sql.streaming.join.stateFormatVersion": "2",
}  # fmt: skip
_HOWS = {"inner": "inner", "left": "left_outer", "right": "right_outer", "full": "full_outer"}


@dataclass(frozen=True, repr=False)
class JoinSource(Derived):
    """What a join of two streams gives; its state lies on disk, or in memory."""

    join: StreamJoin
    state: str = DISK

    @property
    def inputs(self) -> tuple[Stream, ...]:
        return self.join.inputs

    @property
    def settled(self) -> dict[str, str]:
        return {"state": self.state}

    @property
    def settings(self) -> Mapping[str, str]:
        return _MEMORY if self.state == MEMORY else super().settings

    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        from pyspark.sql import functions as f

        from penstock.runtime.derived.joins.tasks import Side

        sides = Side(self.join, 0), Side(self.join, 1)
        left, right = (self._side(spark, side) for side in sides)
        found = left.join(right, f.expr(self._condition(*sides)), _HOWS[self.join.how])
        taken = [
            (f.coalesce(f"`l:{own}`", f"`r:{own}`") if side == 2 else f.col(f"`{'lr'[side]}:{own}`")).alias(name)
            for name, side, own in self.join.gives
        ]
        return found.select(*taken)

    def _side(self, spark: SparkSession, side: Side) -> DataFrame:
        from penstock.runtime.derived.joins.tasks import AHEAD_DAYS, MARK, SideReader

        reader = SideReader({stream.name for stream in side.flow.sources}, *self.told(self.name))
        rows = self.commits(spark, self.name, (side, side.ddl), reader, source=side.side)
        rows = rows.withWatermark(f"`{side.at}`", f"{AHEAD_DAYS} days")
        # It names the event time, so that Spark does it after it has looked at the rows of time.
        return rows.where(f"CASE WHEN `{side.at}` IS NULL THEN false ELSE NOT `{MARK}` END").drop(MARK)

    def _condition(self, left: Side, right: Side) -> str:
        keys = [f"`{own}` = `{other}`" for own, other in zip(left.keys, right.keys, strict=True)]
        if self.join.window is not None:
            return " AND ".join([*keys, f"`{left.at}` = `{right.at}`"])
        bounds = sorted([(self.join.earliest, ">="), (self.join.latest, "<=")], key=lambda bound: bound[0] != 0)
        return " AND ".join([*keys, *(f"`{right.at}` {sign} `{left.at}`{_plus(span)}" for span, sign in bounds)])

    @contextmanager
    def answer(self, rows: DataFrame, columns: Sequence[str], source: EpochOrigin) -> Iterator[tuple[Rows, Due | None]]:
        """Events that found none are given out as time passes: each step of it must be told.

        Spark gives them out in the epoch after the one that was told: at once, in one that brings nothing new.
        """
        with closing(self.reader(self.name)) as reader:
            time, *files = reader.parts(*between(source.before, source.offsets))
        times = times_of(time[1])
        taken = self._with_refused(rows.select(*(f"`{name}`" for name in columns)), columns, time, files, times)
        if self.join.how == "inner":
            yield taken, NEVER
            return
        mark = max((one.after for one in times), default=None)
        yield taken, None if mark is None else (mark + 1, END)

    def _with_refused(
        self, rows: DataFrame, columns: Sequence[str], time: Part, files: Sequence[Part], times: Sequence[Time]
    ) -> DataFrame:
        """Rows, and what is refused of the same commits; mostly nothing can be, and no file is read for it."""
        from pyspark.sql import functions as f

        from penstock.runtime.derived.commits import arrow_of, past_of
        from penstock.runtime.derived.joins.tasks import Refusing, timed

        refusing = Refusing(self.join)
        found = [part for part in files if refusing.may_refuse(past_of(part[1]), times)]
        if not found:
            return rows
        said = {MALFORMED: "string", REASON: "string", LATE: "boolean"}
        parts = rows.sparkSession.createDataFrame(arrow_of(timed(time, found)))
        refused = parts.repartition(len(found)).mapInArrow(refusing, refusing.ddl)
        rows = rows.withColumns({name: f.lit(None).cast(kind) for name, kind in said.items()})
        return rows.unionByName(refused.select(*(f"`{name}`" for name in columns), *said))

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


def _plus(span: int) -> str:
    """So much is added to a time. Spark adds by the calendar, which takes its time: nothing is not added."""
    seconds = f"{'-' if span < 0 else ''}{abs(span) // SECOND}.{abs(span) % SECOND:06}"
    return f" + INTERVAL '{seconds}' SECOND" if span else ""
