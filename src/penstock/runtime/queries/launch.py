"""Starts the Spark query of a stream, in a session of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.history.events.place import Place as HistoryPlace
from penstock.model.stream import Stream
from penstock.runtime.queries.stream_query import StreamQuery
from penstock.runtime.spark.internals import cloned_session
from penstock.runtime.spark.reach import check_reach

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: What an epoch is given to: the query, its rows, and its number.
TakeEpoch: TypeAlias = "Callable[[StreamQuery, DataFrame, int], None]"

#: A process killed while Spark wrote its first offsets leaves a half-written file behind, with which Spark would refuse
#: to start. Whether a checkpoint and the store belong together is checked by Penstock, each epoch.
_SETTINGS: Final = {"spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false"}


class QueryLauncher:
    """Starts queries of an app. On a cluster it first checks that executors reach what they write to."""

    def __init__(self, app: str, spark: SparkSession, history: HistoryPlace, every: str, take: TakeEpoch) -> None:
        self._app, self._spark, self._history, self._every, self._take = app, spark, history, every, take
        self._reached: set[str] = set()  # directories that the executors are known to share

    def __call__(self, query: StreamQuery, stream: Stream, pool: str) -> StreamingQuery:
        """Starts a stream's query; its jobs run in a pool of Spark's scheduler."""
        self._check_reach(query, stream)
        session = cloned_session(self._spark)
        for name, value in _SETTINGS.items():
            session.conf.set(name, value)
        session.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
        try:
            return (
                query.pace.begin()
                .read(session, stream.schema, query.columns)
                .writeStream.queryName(f"{self._app}-{query.name}")
                .foreachBatch(lambda rows, number: self._take(query, rows, number))
                .option("checkpointLocation", query.checkpoint.url)
                .trigger(processingTime=self._every)
                .start()
            )
        finally:
            session.sparkContext.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]

    def _check_reach(self, query: StreamQuery, stream: Stream) -> None:
        """Executors write the history: its place is tried once."""
        history = self._history
        if stream.kept != "none" and history.is_local and history.location not in self._reached:
            check_reach(
                self._spark, Path(history.location), "they write the history of events there",
                "keep it where all of them can write (--history, history_at=…), or set keep = none for the streams",
            )  # fmt: skip
            self._reached.add(history.location)
