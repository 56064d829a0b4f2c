"""The places of rows, given by Spark before it hands the rows to tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.kernel.offsets import made_offset_sql
from penstock.runtime.epoch.job import Job
from penstock.sources.base import PATH, ROW
from penstock.sources.files.positions import positions_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def placed(rows: DataFrame, job: Job) -> DataFrame:
    """Rows at the places that the tasks would give them, where the log has none: they stay when rows are set apart."""
    from pyspark.sql import functions as f

    if "__offset" in rows.columns:
        return rows
    partition = f.lit(job.place or 0).cast("int")
    if PATH in rows.columns and job.positions is not None:
        paths = [row[PATH] for row in rows.select(PATH).distinct().collect()]
        starts = [(path, positions_of(path, job.positions).start) for path in paths]
        files = rows.sparkSession.createDataFrame(starts, f"`{PATH}` string, __start bigint")
        placed = rows.join(f.broadcast(files), PATH).withColumn("__offset", f.col("__start") + f.col(ROW))
        return placed.withColumn("__partition", partition).drop(PATH, ROW, "__start")
    offset = f.expr(made_offset_sql(str(job.epoch), "monotonically_increasing_id()", job.first_task))
    return rows.withColumns({"__partition": partition, "__offset": offset})
