"""Questions to all of history, in Spark SQL: the events of streams as of a moment, beside views as they are now.

    SELECT city, count(*) FROM HISTORY(visits) AS OF TIMESTAMP '2026-05-01 12:00' GROUP BY city

A moment is an epoch of the stream, a commit, or a time of the clock. Rows have the stream's columns, and besides
`__commit`, `__partition` and `__offset`: who brought them, and where they stood in their log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.history.events.event_history import EventHistory
from penstock.history.events.pins import pinned
from penstock.model.stream import Stream
from penstock.model.time import instant
from penstock.runtime.errors import essence
from penstock.store.presented_rows import presented_rows
from penstock.store.reader import Reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: What a row of history tells besides its own columns.
TOLD = ("__commit", "__partition", "__offset")


@dataclass(frozen=True)
class Moment:
    """Up to when: an EPOCH of a stream, a COMMIT, a TIMESTAMP of the clock, or None for now. Or a processor's STATE."""

    by: str | None = None
    at: int | str | None = None


@dataclass(frozen=True)
class Table:
    """A name in a question that stands for the history of a stream or of a view."""

    table: str
    of: str
    moment: Moment = Moment()


class Historian:
    """Answers questions. `view_at` gives a view's rows as they were after a commit, `state` what a processor keeps."""

    def __init__(
        self,
        spark: SparkSession,
        reader: Reader,
        streams: Mapping[str, Stream],
        history: EventHistory | None,
        view_at: Callable[[str, int], pl.DataFrame] | None = None,
        state: Callable[[str], pl.DataFrame] | None = None,
    ) -> None:
        self._spark, self._reader, self._streams, self._history = spark, reader, streams, history
        self._view_at, self._state = view_at, state

    def ask(self, text: str, tables: list[Table], views: list[str]) -> pa.Table:
        """The answer to a SELECT over these tables and over views as they are now."""
        with pinned(self._reader, "question to the history"):
            return self._answer(text, tables, views)

    def _answer(self, text: str, tables: list[Table], views: list[str]) -> pa.Table:
        registered: list[str] = []
        try:
            for table in tables:
                self._register(table.table, self._frame(table), registered)
            for view in views:
                self._register(view, self._now(view), registered)
            try:
                answer = self._spark.sql(text)
                return answer.toDF(*_unique(answer.columns)).toArrow()
            except Exception as error:
                raise PenstockError(f"Spark cannot answer: {essence(error)}") from error
        finally:
            for name in registered:
                self._spark.catalog.dropTempView(name)

    def _register(self, name: str, frame: DataFrame, registered: list[str]) -> None:
        frame.createOrReplaceTempView(f"`{name}`")
        registered.append(name)

    def _frame(self, table: Table) -> DataFrame:
        stream = self._streams.get(table.of)
        if table.moment.by == "STATE":
            if self._state is None:
                raise PenstockError(
                    f"the state of '{table.of}' as of then can only be read in the running app",
                    hint="ask while the app runs",
                )
            return self._spark.createDataFrame(self._state(table.of).to_arrow(compat_level=pl.CompatLevel.oldest()))
        if stream is None:
            commit = self.commit_of(table.moment, None)
            if self._view_at is None:
                raise PenstockError(f"the view '{table.of}' as it was needs the app", hint="ask while the app runs")
            return self._typed(table.of, self._view_at(table.of, commit))
        if self._history is None or self._history.since(stream) is None:
            raise PenstockError(
                f"the history of the stream '{stream.name}' is not kept", hint="to keep it from now on: keep='all'"
            )
        frame = self._history.past(stream, self.commit_of(table.moment, stream.name)).frame(
            self._spark, stream.schema.names
        )
        return frame.select(*(f"`{name}`" for name in (*stream.schema.names, *TOLD)))

    def _now(self, view: str) -> DataFrame:
        return self._typed(view, presented_rows(self._reader, view))

    def _typed(self, view: str, rows: pl.DataFrame) -> DataFrame:
        """A view's table, with its columns in Spark's types: the store has times as text."""
        types = {name: kind for entry in self._reader.catalog() if entry.name == view for name, kind in entry.columns}
        frame = self._spark.createDataFrame(rows.to_arrow())
        return frame.selectExpr(
            *(
                f"CAST(`{name}` AS {types[name]}) AS `{name}`" if name in types else f"`{name}`"
                for name in frame.columns
            )
        )

    def commit_of(self, moment: Moment, stream: str | None) -> int:
        """The last commit up to a moment."""
        if moment.by == "EPOCH":
            commit = self._reader.query(
                'SELECT max("commit") FROM __epochs WHERE stream = ?1 AND epoch = ?2', [stream, moment.at]
            ).item()
            if commit is None:
                newest = self._reader.query("SELECT max(epoch) FROM __epochs WHERE stream = ?1", [stream]).item()
                raise PenstockError(
                    f"the stream '{stream}' has no epoch {moment.at}",
                    hint="it has none yet" if newest is None else f"its newest is {newest}",
                )
            return int(commit)
        last = self._reader.last()
        newest = 0 if last is None else last.number
        if moment.by == "COMMIT":
            if not 0 <= int(moment.at or 0) <= newest:
                raise PenstockError(f"there is no commit {moment.at}", hint=f"the newest is {newest}")
            return int(moment.at or 0)
        if moment.by == "TIMESTAMP":
            # Commits of several groups may have times out of order: all commits before the first later one.
            sql = 'SELECT min(number) FROM (SELECT number, now FROM __commits UNION SELECT "commit", now FROM __epochs)'
            later = self._reader.query(f"{sql} WHERE now > ?1", [instant(str(moment.at))]).item()
            return newest if later is None else int(later) - 1
        return newest


def _unique(names: list[str]) -> list[str]:
    """Names of columns, each once: Spark gives two sums of `n` the same.

    >>> _unique(["k", "sum(n)", "sum(n)"])
    ['k', 'sum(n)', 'sum(n) 2']
    """
    unique: list[str] = []
    for name in names:
        number = 2
        chosen = name
        while chosen in unique:
            chosen, number = f"{name} {number}", number + 1
        unique.append(chosen)
    return unique
