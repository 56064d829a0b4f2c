"""A view on Spark for tests: a script's commits become epochs and ticks of the engine, with state in a store.

Rows are spread over tasks at random, with their places in the log, and a restart opens everything anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.engine.core import Engine, Source
from penstock.engine.needs import needed
from penstock.kernel.local import events_frame
from penstock.model.commits import Commit, Event, Pane, Refused, TableRow
from penstock.model.view import View
from penstock.store import SqliteStore
from tests.store.engine import NAME, panes_of, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkEngine:
    """One view on Spark."""

    def __init__(self, view: View, spark: SparkSession, directory: Path, tasks: int = 2, epochs: int = 0) -> None:
        self.view, self.spark, self.directory, self.tasks = view, spark, directory, tasks
        self.store = SqliteStore.open(directory)
        self.store.lock()
        self._epochs, self._caught_up = epochs, True
        self._engine: Engine | None = None
        self._events: dict[tuple[str, int, int], Event] = {}

    def commit(self, commit: Commit) -> tuple[list[Pane], list[Refused]]:
        self._caught_up = commit.caught_up
        if self._engine is None:
            streams = {source.name: source for source in self.view.input.sources}
            self._engine = Engine(streams, self.store, commit.now, lambda name: self._caught_up)
            self._engine.keep({NAME: self.view})
        engine = self._engine
        last = self.store.query("SELECT coalesce(max(id), 0) FROM __panes").item()
        before = self.store.last()
        self._events |= {(event.stream, event.partition, event.offset): event for event in commit.events}
        names = {event.stream for event in commit.events}
        assert len(names) <= 1, "an epoch is of one stream"
        for name in names:
            stream = engine.streams[name]
            columns = needed(stream, [self.view])
            rows = events_frame(stream, commit.events, 0).select(*columns, "__partition", "__offset")
            frame = self.spark.createDataFrame(rows.to_arrow()).repartition(self.tasks)
            source = Source(name, self._epochs, str(self._epochs))
            self._epochs += 1
            engine.epoch(name, columns, frame, source, commit.now)
        if not names:
            engine.tick(commit.now, commit.fixed)
        after = self.store.last()
        done = after is not None and (before is None or after.number > before.number)
        refused = self._refused(after.number) if done and after is not None else []
        return panes_of(self.view, self.store.panes(last, 1 << 30)), refused

    def _refused(self, number: int) -> list[Refused]:
        sql = 'SELECT kind, stream, partition, "offset", reason, missed, windows FROM __refused WHERE "commit" = ?1'
        return [
            Refused(kind, self._events[stream, partition, offset], reason, missed, windows)
            for kind, stream, partition, offset, reason, missed, windows in self.store.query(sql, [number]).rows()
        ]

    def table(self) -> list[TableRow]:
        if self._engine is None:
            return []
        found = table_of(self.view, self.store.query(f"SELECT * FROM {NAME}"))
        self.store.close()
        return found

    def restart(self) -> SparkEngine:
        self.store.close()
        return SparkEngine(self.view, self.spark, self.directory, self.tasks, self._epochs)
