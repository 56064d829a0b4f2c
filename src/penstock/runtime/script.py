"""A view on Spark for `penstock.testing`: a script's commits become epochs and ticks of the engine.

Rows are spread over tasks with their places in the log; the state is a store in a directory of its own, and a restart
opens everything anew.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from penstock.errors import DefinitionError, PenstockError
from penstock.kernel.local import events_frame, kernel_columns, panes_of, table_of
from penstock.model.changes import all_below, origins
from penstock.model.commits import Commit, Event, Pane, Refused, TableRow
from penstock.model.join import join_behind
from penstock.model.placement import Placement
from penstock.model.stream import Stream
from penstock.model.time import Instant
from penstock.model.view import View
from penstock.runtime.commit.shards import FEW_DELTAS, FEW_ROWS, Shards
from penstock.runtime.engine import Engine
from penstock.runtime.epoch.needs import needed
from penstock.runtime.epoch.origin import EpochOrigin
from penstock.runtime.errors import RunError, essence
from penstock.runtime.spark.session import spark_session
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "view"


def _rows(stream: Stream, events: Sequence[Event]) -> pa.Table:
    """Events of the model as Spark reads them; maps and structs too, which the kernel has no columns for."""
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import DataType

    rows = events_frame(stream, events, 0, kernel_columns(stream.schema)).to_arrow()
    for name, kind in stream.schema:
        if name not in rows.column_names:
            arrow = to_arrow_type(DataType.fromDDL(kind))
            rows = rows.append_column(name, pa.array([_items(event.row.get(name)) for event in events], arrow))
    return rows


def _items(value: object) -> object:
    """A value as Arrow takes it: the entries of a map are pairs, and those of a struct too."""
    if isinstance(value, dict):
        return [(name, _items(part)) for name, part in value.items()]
    return [_items(part) for part in value] if isinstance(value, list) else value


class OnSpark:
    """Runs one view on Spark, commit by commit. `placement` says where the state of all its views lives."""

    def __init__(
        self,
        view: View,
        spark: SparkSession | None = None,
        directory: Path | None = None,
        tasks: int = 2,
        placement: Placement = Placement(),  # noqa: B008
    ) -> None:
        self.view, self.tasks, self._placement = view, tasks, placement
        self.spark = spark or spark_session("penstock-testing", master="local[2]")
        self._temporary = tempfile.TemporaryDirectory() if directory is None else None
        self.directory = Path(self._temporary.name) if self._temporary is not None else Path(str(directory))
        self.store = SqliteStore.open(self.directory)
        self.store.lock()
        self._epochs, self._caught_up, self._now = 0, True, 0
        self._engine: Engine | None = None
        self._events: dict[tuple[str, int, int], Event] = {}
        self._tables: dict[str, tuple[tuple[object, ...], ...]] = {}

    def commit(self, commit: Commit) -> tuple[list[Pane], list[Refused]]:
        self._caught_up = commit.caught_up
        self._now = commit.now
        engine = self._started(commit.now)
        self._tables |= commit.tables
        engine.take_tables(commit.tables)
        self._events |= {(event.stream, event.partition, event.offset): event for event in commit.events}
        names = {event.stream for event in commit.events}
        if len(names) > 1:
            raise DefinitionError("on Spark a commit is an epoch of one stream", hint="add to one stream at a time")
        done = None
        for name in names:
            stream = engine.registry.streams[name]
            columns = needed(stream, engine.registry.lowered)
            rows = _rows(stream, commit.events).select([*columns, "__partition", "__offset"])
            frame = self.spark.createDataFrame(rows).repartition(self.tasks)
            source = EpochOrigin(name, self._epochs, str(self._epochs))
            self._epochs += 1
            try:
                done = engine.epoch(name, columns, frame, source, commit.now)
            except PenstockError:
                raise
            except Exception as error:
                raise RunError(essence(error)) from error
        if not names:
            done = engine.tick(commit.now, commit.fixed)
        if done is None:
            return [], []
        refused = [
            self._refused(kind, row)
            for kind, frame in done.refused.items()
            for row in frame.iter_rows(named=True)
            if row["view"] in (None, NAME)
        ]
        change = done.segments[NAME] if NAME in done.segments else done.changes[NAME]
        return panes_of(engine.registry.views[NAME].plan, change.panes), refused

    @property
    def lowered(self) -> View:
        """The view as the kernel takes it: the types of all its columns are known."""
        return self._started(self._now).registry.views[NAME].plan.view

    def _refused(self, kind: str, row: dict[str, Any]) -> Refused:
        place = row["stream"], row["partition"], row["offset"]
        # What DataFrame code made is no event of the script: it is shown as it came out.
        event = self._events.get(place) or Event(place[0], json.loads(row["row"]), place[1], place[2])
        return Refused(cast(Any, kind), event, row["reason"], row["missed"], row["windows"])

    def _started(self, now: Instant) -> Engine:
        if self._engine is None:
            streams = {source.name: source for source in origins(self.view)}
            # A script joins streams before its commits reach an engine: what they are made from is known by name only.
            behind = list(streams.values())
            while behind:
                join = join_behind(behind.pop())
                behind += [] if join is None else join.inputs
                streams |= {} if join is None else {source.name: source for source in join.inputs}
            views = {**all_below(self.view), NAME: self.view}
            is_sharded = self._placement.kind == "sharded"
            shards = Shards(
                self.store,
                lambda: self.spark,
                dict.fromkeys(views, self._placement),
                few_rows=0 if is_sharded else FEW_ROWS,  # a script has few rows, and is to show what tasks do
                few_deltas=0 if is_sharded else FEW_DELTAS,
            )
            self._engine = Engine(
                streams, self.store, now, lambda name: self._caught_up, session=lambda: self.spark, shards=shards
            )
            self._engine.registry.keep(views)
            self._engine.take_tables(self._tables)
        return self._engine

    def table(self) -> list[TableRow]:
        engine = self._started(self._now)
        return table_of(engine.registry.views[NAME].plan, self.store.state(NAME).table())

    def restart(self) -> OnSpark:
        self.store.close()
        other = OnSpark(self.view, self.spark, self.directory, self.tasks, self._placement)
        other._epochs, other._events, other._temporary = self._epochs, self._events, self._temporary
        other._now, other._tables = self._now, self._tables
        return other
