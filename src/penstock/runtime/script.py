"""A view on the engine for `penstock.testing`, with or without Spark: a script's commits become epochs and ticks.

On Spark rows are spread over tasks with their places in the log. The state is a store in a directory of its own, and a
restart opens everything again.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from penstock.dataflow.operators import operator_of
from penstock.errors import DefinitionError, PenstockError
from penstock.kernel.local import events_frame, panes_of, table_of
from penstock.kernel.values import kernel_columns
from penstock.model.changes import Changes
from penstock.model.commits import Commit, Event, Pane, Rejection, TableRow
from penstock.model.placement import Placement
from penstock.model.stream import Flow, Stream
from penstock.model.time import Instant
from penstock.model.view import View
from penstock.runtime.commit.shards import FEW_DELTAS, FEW_ROWS, Shards
from penstock.runtime.derived.base import Rows
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


class OnEngine:
    """Runs one view, with all that it reads, on the engine without Spark. `placement` says where state lives.

    `fed` are streams whose rows the script gives, whatever gives them otherwise.
    """

    def __init__(
        self,
        view: View,
        directory: Path | None = None,
        placement: Placement = Placement(),  # noqa: B008
        fed: Collection[str] = (),
    ) -> None:
        self.view, self._placement, self._fed = view, placement, fed
        self._temporary = tempfile.TemporaryDirectory() if directory is None else None
        self.directory = Path(self._temporary.name) if self._temporary is not None else Path(str(directory))
        self.store = SqliteStore.open(self.directory)
        self.store.lock()
        self._epochs, self._caught_up, self._now = 0, True, 0
        self._engine: Engine | None = None
        self._events: dict[tuple[str, int, int], Event] = {}
        self._tables: dict[str, tuple[tuple[object, ...], ...]] = {}

    @property
    def session(self) -> Callable[[], SparkSession] | None:
        """The Spark session that steps run in; None: there is none."""
        return None

    def rows(self, table: pa.Table) -> Rows:
        """The rows of an epoch as the engine takes them."""
        return table

    def commit(self, commit: Commit) -> tuple[list[Pane], list[Rejection]]:
        self._caught_up = commit.caught_up
        self._now = commit.now
        engine = self._started(commit.now)
        self._tables |= commit.tables
        engine.take_tables(commit.tables)
        self._events |= {(event.stream, event.partition, event.offset): event for event in commit.events}
        names = {event.stream for event in commit.events}
        if len(names) > 1:
            raise DefinitionError("a commit is an epoch of one stream", hint="add to one stream at a time")
        done = None
        for name in names:
            stream = engine.registry.streams[name]
            columns = needed(stream, engine.registry.lowered)
            rows = _rows(stream, commit.events).select([*columns, "__partition", "__offset"])
            source = EpochOrigin(name, self._epochs, str(self._epochs), decoded=True)
            self._epochs += 1
            try:
                done = engine.epoch(name, columns, self.rows(rows), source, commit.now)
            except PenstockError:
                raise
            except Exception as error:
                raise RunError(essence(error)) from error
        if not names:
            done = engine.tick(commit.now, commit.fixed)
        if done is None:
            return [], []
        read = {None, NAME, *views_of((self.view.input,), self._fed)}
        refused = [
            self._refused(kind, row)
            for kind, frame in done.refused.items()
            for row in frame.iter_rows(named=True)
            if row["view"] in read
        ]
        change = done.segments[NAME] if NAME in done.segments else done.changes[NAME]
        return panes_of(engine.registry.views[NAME].plan, change.panes), refused

    @property
    def lowered(self) -> View:
        """The view as the kernel takes it: the types of all its columns are known."""
        return self._started(self._now).registry.views[NAME].plan.view

    def _refused(self, kind: str, row: dict[str, Any]) -> Rejection:
        place = row["stream"], row["partition"], row["offset"]
        # What DataFrame code or an operator made is not an event of the script: it is shown as it came out.
        event = self._events.get(place) or Event(place[0], json.loads(row["row"]), place[1], place[2])
        return Rejection(cast(Any, kind), event, row["reason"], row["missed"], row["windows"])

    def _started(self, now: Instant) -> Engine:
        if self._engine is None:
            views = {**views_of((self.view.input,), self._fed), NAME: self.view}
            is_sharded = self._placement.kind == "sharded"
            shards = Shards(
                self.store,
                self.session,
                dict.fromkeys(views, self._placement),
                few_rows=0 if is_sharded else FEW_ROWS,  # a script has few rows, and is to show what tasks do
                few_deltas=0 if is_sharded else FEW_DELTAS,
            )
            streams = streams_of((self.view.input,), self._fed)
            self._engine = Engine(
                streams, self.store, now, lambda name: self._caught_up, session=self.session, shards=shards
            )
            self._engine.registry.keep(views)
            self._engine.take_tables(self._tables)
        return self._engine

    def table(self) -> list[TableRow]:
        engine = self._started(self._now)
        return table_of(engine.registry.views[NAME].plan, self.store.state(NAME).table())

    def again(self) -> OnEngine:
        """Another runner on the same store."""
        return OnEngine(self.view, self.directory, self._placement, self._fed)

    def restart(self) -> OnEngine:
        self.store.close()
        other = self.again()
        other._epochs, other._events, other._temporary = self._epochs, self._events, self._temporary
        other._now, other._tables = self._now, self._tables
        return other


class OnSpark(OnEngine):
    """The same on Spark: rows are spread over tasks."""

    def __init__(
        self,
        view: View,
        spark: SparkSession | None = None,
        directory: Path | None = None,
        tasks: int = 2,
        placement: Placement = Placement(),  # noqa: B008
        fed: Collection[str] = (),
    ) -> None:
        super().__init__(view, directory, placement, fed)
        self.tasks = tasks
        self.spark = spark or spark_session("penstock-testing", master="local[2]")

    @property
    def session(self) -> Callable[[], SparkSession] | None:
        return lambda: self.spark

    def rows(self, table: pa.Table) -> Rows:
        return self.spark.createDataFrame(table).repartition(self.tasks)

    def again(self) -> OnSpark:
        return OnSpark(self.view, self.spark, self.directory, self.tasks, self._placement, self._fed)


def streams_of(flows: Collection[Flow], fed: Collection[str]) -> dict[str, Stream]:
    """All streams below flows: those of the script, and those that operators give."""
    streams: dict[str, Stream] = {}
    for source in (source for flow in flows for source in flow.sources):
        if isinstance(source, Changes):
            streams |= streams_of((source.of.input,), fed)
            continue
        operator = operator_of(source)
        is_given = operator is not None and source.name in fed
        streams[source.name] = replace(source, log=None) if is_given else source
        if operator is not None and source.name not in fed:
            streams |= streams_of(operator.inputs, fed)
    return streams


def views_of(flows: Collection[Flow], fed: Collection[str]) -> dict[str, View]:
    """All views below flows, through operators too."""
    views: dict[str, View] = {}
    for source in (source for flow in flows for source in flow.sources):
        operator = None if source.name in fed else operator_of(source)
        if isinstance(source, Changes):
            views |= {**views_of((source.of.input,), fed), source.name: source.of}
        elif operator is not None:
            views |= views_of(operator.inputs, fed)
    return views
