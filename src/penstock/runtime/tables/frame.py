"""Tables as DataFrames: what Spark joins by shuffling, and what DataFrame code gets as side inputs.

A version is kept in Spark's memory, or on the executors' disks, by the hash of its key: an epoch then shuffles only its
own rows, and reads nothing again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.kernel.tables import frame_of
from penstock.model.table import Snapshot, Table, TableJoin
from penstock.model.types import is_integer

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: The rows' event time, on the way through steps that need it.
AT = "__at"
_kept: dict[tuple[str, Table], tuple[str, DataFrame]] = {}


def joined(frame: DataFrame, step: TableJoin) -> DataFrame:
    """Rows with what they find in a table. Where it is as of their time, that is in the column `AT`."""
    from pyspark.sql import functions as f

    table, names = step.table, [f"__k{number}" for number in range(len(step.on))]
    keys = zip(names, step.on, table.key, strict=True)
    left = frame.withColumns({name: _wide(f.expr(text), table.schema.type_of(key)) for name, text, key in keys})
    found = left.hint("shuffle_hash").join(_by_key(frame.sparkSession, table, step.snapshot), names, step.how)
    own = [f.col(f"`{name}`") for name in frame.columns]
    if table.valid_from is None:
        return found.select(*own, *(f.col(f"`t:{column}`").alias(name) for name, column in step.joined))
    last = f"element_at(filter(__versions, v -> v.__since <= {AT}), -1)"
    found = found.select(*own, f.expr(last).alias("__v"))
    if table.valid_to is not None:
        over = f"__v.`t:{table.valid_to}` IS NOT NULL AND __v.`t:{table.valid_to}` <= {AT}"
        found = found.withColumn("__v", f.expr(f"CASE WHEN {over} THEN NULL ELSE __v END"))
    found = found if step.how == "left" else found.where("__v IS NOT NULL")
    return found.select(*own, *(f.col("__v").getField(f"t:{column}").alias(name) for name, column in step.joined))


def table_frame(spark: SparkSession, table: Table, snapshot: Snapshot | None) -> DataFrame:
    """All rows of a version."""
    types = ", ".join(f"`{name}` {kind}" for name, kind in table.schema)
    if snapshot is None or (snapshot.path is None and not snapshot.rows):
        return spark.createDataFrame([], types)
    if snapshot.path is not None:
        return spark.read.schema(types).parquet(f"file://{snapshot.path}")
    return spark.createDataFrame(frame_of(table, snapshot).to_arrow(), types)


def _by_key(spark: SparkSession, table: Table, snapshot: Snapshot | None) -> DataFrame:
    """A version by its key, kept: one row a key, with all its rows in the order of their time where it has several."""
    rows = _keyed(table_frame(spark, table, snapshot), table)
    if snapshot is None or snapshot.path is None:
        return rows
    known, application = (snapshot.path, table), spark.sparkContext.applicationId
    if known in _kept and _kept[known][0] == application:
        return _kept[known][1]
    for other in [one for one in _kept if one[1] == table]:
        _kept.pop(other)[1].unpersist()
    names = [f"__k{number}" for number in range(len(table.key))]
    _kept[known] = application, rows.repartition(*names).persist()
    return _kept[known][1]


def _keyed(rows: DataFrame, table: Table) -> DataFrame:
    from pyspark.sql import functions as f

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


def forget(path: str) -> None:
    """A version is gone: what was kept of it goes too."""
    for known in [one for one in _kept if one[0] == path]:
        _kept.pop(known)[1].unpersist()
