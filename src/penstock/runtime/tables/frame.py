"""Tables as DataFrames: what Spark joins by shuffling, and what DataFrame code gets as side inputs.

A version is kept in Spark's memory, or on the executors' disks, by the hash of its key: an epoch then shuffles only its
own rows, and reads nothing again.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.kernel.tables import frame_of
from penstock.model.table import Snapshot, Table, TableJoin
from penstock.model.types import is_integer

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: The rows' event time, on the way through steps that need it.
AT = "__at"


class TableFrames:
    """The versions that epochs join by shuffling, one of each table. Safe for several threads."""

    def __init__(self) -> None:
        self._kept: dict[Table, tuple[str, DataFrame]] = {}  # with the path of the version
        self._lock = threading.Lock()

    def by_key(self, spark: SparkSession, table: Table, snapshot: Snapshot | None) -> DataFrame:
        """A version by its key. One that is in files is kept until another version is asked for."""
        if snapshot is None or snapshot.path is None:
            return by_key(spark, table, snapshot)
        with self._lock:
            known = self._kept.get(table)
            if known is None or known[0] != snapshot.path:
                names = [f"__k{number}" for number in range(len(table.key))]
                self._drop(table)
                known = snapshot.path, by_key(spark, table, snapshot).repartition(*names).persist()
                self._kept[table] = known
            return known[1]

    def forget(self, path: str) -> None:
        """A version is gone: what was kept of it goes too."""
        with self._lock:
            for table in [table for table, (kept, _) in self._kept.items() if kept == path]:
                self._drop(table)

    def close(self) -> None:
        """Keeps nothing any more. Where Spark has died, nothing is left to let go."""
        with self._lock, suppress(Exception):
            for table in list(self._kept):
                self._drop(table)

    def _drop(self, table: Table) -> None:
        if table in self._kept:
            self._kept.pop(table)[1].unpersist()


def joined(frame: DataFrame, step: TableJoin, frames: TableFrames | None = None) -> DataFrame:
    """Rows with what they find in a table. Where it is as of their time, that is in the column `AT`.

    Without `frames` the table is read for this join alone.
    """
    from pyspark.sql import functions as f

    table, names = step.table, [f"__k{number}" for number in range(len(step.on))]
    keys = zip(names, step.on, table.key, strict=True)
    keyed = by_key if frames is None else frames.by_key
    left = frame.withColumns({name: _wide(f.expr(text), table.schema.type_of(key)) for name, text, key in keys})
    rows = left.hint("shuffle_hash").join(keyed(frame.sparkSession, table, step.snapshot), names, step.how)
    own = [f.col(f"`{name}`") for name in frame.columns]
    if table.valid_from is None:
        return rows.select(*own, *(f.col(f"`t:{column}`").alias(name) for name, column in step.joined))
    last = f"element_at(filter(__versions, v -> v.__since <= {AT}), -1)"
    rows = rows.select(*own, f.expr(last).alias("__v"))
    if table.valid_to is not None:
        over = f"__v.`t:{table.valid_to}` IS NOT NULL AND __v.`t:{table.valid_to}` <= {AT}"
        rows = rows.withColumn("__v", f.expr(f"CASE WHEN {over} THEN NULL ELSE __v END"))
    rows = rows if step.how == "left" else rows.where("__v IS NOT NULL")
    return rows.select(*own, *(f.col("__v").getField(f"t:{column}").alias(name) for name, column in step.joined))


def table_frame(spark: SparkSession, table: Table, snapshot: Snapshot | None) -> DataFrame:
    """All rows of a version."""
    types = ", ".join(f"`{name}` {kind}" for name, kind in table.schema)
    if snapshot is None or (snapshot.path is None and not snapshot.rows):
        return spark.createDataFrame([], types)
    if snapshot.path is not None:
        return spark.read.schema(types).parquet(f"file://{snapshot.path}")
    return spark.createDataFrame(frame_of(table, snapshot).to_arrow(), types)


def by_key(spark: SparkSession, table: Table, snapshot: Snapshot | None) -> DataFrame:
    """A version by its key: one row a key, with all its rows in the order of their time where it has several."""
    from pyspark.sql import functions as f

    rows = table_frame(spark, table, snapshot)
    keys = [_wide(f.col(f"`{name}`"), table.schema.type_of(name)).alias(f"__k{n}") for n, name in enumerate(table.key)]
    names = [f"__k{number}" for number in range(len(keys))]
    columns = [f.col(f"`{name}`").alias(f"t:{name}") for name in table.schema.names]
    made = rows.select(*keys, *columns).dropna(subset=names)
    if table.valid_from is None:
        return made
    since = f.coalesce(f.col(f"`t:{table.valid_from}`"), f.expr("timestamp_micros(-62135596800000000)"))
    version = f.struct(since.alias("__since"), *(f.col(f"`t:{name}`") for name in table.schema.names))
    order = "(a, b) -> CASE WHEN a.__since < b.__since THEN -1 WHEN a.__since > b.__since THEN 1 ELSE 0 END"
    several = made.groupBy(*names).agg(f.collect_list(version).alias("__versions"))
    return several.withColumn("__versions", f.expr(f"array_sort(__versions, {order})"))


def _wide(column: Column, kind: str) -> Column:
    """A key in the type in which keys are compared."""
    return column.cast("bigint") if is_integer(kind) else column
