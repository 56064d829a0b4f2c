"""The low latency lane: rows of a flow without state from Kafka to Kafka in Spark's real-time mode, in milliseconds.

A lane is a query of its own beside the epochs. Its tasks run all the time, one for each partition that it reads, and
send each row on as it comes: Catalyst's expressions only, no kernel, no store, no outbox. What it sent since its last
checkpoint comes again after a failure: at least once. The stream's epochs go on beside it; they count its events, and
keep what was malformed.

At each checkpoint Spark ends the tasks, plans the query again and starts new tasks: rows wait for it, some tenths of a
second. So a longer time between checkpoints means fewer rows that wait, and more that come again.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import DefinitionError
from penstock.kafka_client import client_settings, load, servers_of
from penstock.model.row_steps import PythonStep
from penstock.model.stream import Flow, Stream, branches
from penstock.model.table import tables
from penstock.model.view import View
from penstock.runtime.epoch.analyst import applied, schema_of
from penstock.runtime.errors import RunError, essence
from penstock.runtime.spark.internals import analyzed_plan
from penstock.sinks import Kafka as KafkaSink
from penstock.sinks import Sink
from penstock.sinks.base import Outbox, delivery_names
from penstock.sources import MALFORMED
from penstock.sources.kafka.columns import select
from penstock.sources.kafka.source import Kafka
from penstock.store.catalog import check_delivery_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: Operators with state; Spark marks those over a stream so in its plans.
_STATEFUL = r"~(Aggregate|Deduplicate\w*|TransformWithState\w*|FlatMapGroupsWith\w*)\b"


def is_lane(sink: Sink) -> bool:
    """Whether a sink gets its rows in real-time mode, and not from the outbox."""
    return sink.mode == "realtime"


def check_lane(flow: Flow, sink: Sink) -> None:
    """Refuses what Spark's real-time mode cannot run, with the reason."""
    if not isinstance(sink, KafkaSink):
        raise _refused(f"{sink!r} is not a Kafka topic", "only ps.to_kafka can have mode='realtime'")
    for branch in branches(flow):
        for step in branch.steps:
            if isinstance(step, PythonStep):
                raise _refused(f"{step.who} is a Python function", "use where, select and explode")
        source = branch.source
        if not isinstance(source.log, Kafka):
            raise _refused(f"'{source.name}' comes from {source.log!r}", "it reads Kafka topics only")
        if tables(flow):
            raise _refused(f"it is joined with the table '{min(tables(flow))}'", "leave out the join")
        if source.log.format == "avro":
            raise _refused(f"the values of '{source.name}' are Avro, which Python decodes", "send JSON or CSV")
        if source.id is not None:
            raise _refused(f"'{source.name}' has an id: detecting duplicates needs state", "leave out the id")
        if source.sign is not None:
            raise _refused(
                f"'{source.name}' is signed, and a message would not show which rows are retractions",
                "leave out the sign",
            )


def _refused(why: str, hint: str) -> DefinitionError:
    return DefinitionError(
        f"real-time mode cannot run this: {why}", hint=f"{hint}; or leave out mode='realtime': rows then go by epochs"
    )


class Lane:
    """One query in real-time mode, from the topics of a flow to the topic of a sink."""

    def __init__(self, spark: SparkSession, name: str, flow: Flow, sink: Sink, checkpoint: Path) -> None:
        assert isinstance(sink, KafkaSink)
        self.name, self._spark, self._flow, self._sink, self.checkpoint = name, spark, flow, sink, checkpoint
        self.query: StreamingQuery | None = None
        #: Time between two checkpoints, which Spark takes for the length of its batches.
        self.every = sink.checkpoint_every

    @property
    def partitions(self) -> int:
        """How many tasks the lane keeps busy."""
        return sum(_partitions(branch.source) for branch in branches(self._flow))

    def start(self) -> None:
        """Starts the query, and waits until Spark has taken it: it looks at the plan after that only."""
        sink = self._sink
        settings = {"kafka.bootstrap.servers": servers_of(sink.servers), **dict(sink.options)}
        try:
            rows = self._frame()
            _check_stateless(rows)
            writer = rows.writeStream.format("kafka").options(**settings).outputMode("update")
            writer = writer.queryName(self.name).option("checkpointLocation", str(self.checkpoint))
            writer = writer.option("topic", sink.topic)
            self.query = writer.trigger(realTime=f"{self.every // 1000} milliseconds").start()  # type: ignore[call-overload]
            jobs = self._spark.sparkContext.statusTracker()
            while self.query.isActive and not jobs.getJobIdsForGroup(str(self.query.runId)):
                time.sleep(0.05)
            error = self.query.exception()
            if error is not None:
                raise error
        except DefinitionError:
            raise
        except Exception as error:
            raise _refused(essence(error), "use expressions that Catalyst computes, and no Python function") from error

    def _frame(self) -> DataFrame:
        """The messages to send: no key, the row as JSON, and in its headers the name of the sink."""
        made = [applied(accepted(self._spark, branch.source), branch.steps) for branch in branches(self._flow)]
        rows = made[0]
        for more in made[1:]:
            rows = rows.unionByName(more)
        columns = [f"{_shown(f'`{name}`', kind)} AS `{name}`" for name, kind in schema_of(rows, "the flow")]
        whole = f"to_json(struct({', '.join(columns)}), map('ignoreNullFields', 'false'))"
        return rows.selectExpr(f"CAST({whole} AS BINARY) AS value")

    def check(self) -> None:
        """Raises what has ended the query."""
        error = None if self.query is None else self.query.exception()
        if error is not None:
            raise RunError(
                f"the real-time lane of the sink '{self.name}' has failed: {essence(error)}",
                detail=str(error)[:2000],
                hint="where an expression fails on a row, let it give null: try_cast, try_divide",
            )

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()


class Lanes:
    """All lanes of an app, by the names of their sinks. A renamed sink keeps its checkpoint, under its first name."""

    def __init__(
        self, spark: SparkSession, app: str, directory: Path, outbox: Outbox,
        sinks: Mapping[str, tuple[str, View | Flow, Sink]],
    ) -> None:  # fmt: skip
        self._spark, self._app, self._directory, self._outbox = spark, app, directory / "realtime", outbox
        self._lanes = {name: self._lane(name, flow, sink) for name, (_, flow, sink) in sinks.items()}

    def _lane(self, name: str, flow: View | Flow, sink: Sink) -> Lane:
        assert isinstance(flow, Flow)
        names = delivery_names(self._outbox)
        check_delivery_name(name, names)
        return Lane(self._spark, f"{self._app}-{name}", flow, sink, self._directory / names.get(name, name))

    def __contains__(self, name: str) -> bool:
        return name in self._lanes

    def __getitem__(self, name: str) -> Lane:
        return self._lanes[name]

    def start(self) -> None:
        if self._lanes:
            self._check_slots(self._lanes)
        for lane in self._lanes.values():
            lane.start()

    def add(self, name: str, flow: View | Flow, sink: Sink) -> None:
        lane = self._lane(name, flow, sink)
        self._check_slots({**self._lanes, name: lane})
        lane.start()
        self._lanes[name] = lane

    def drop(self, name: str) -> None:
        """Ends a lane, and forgets how far it was."""
        lane = self._lanes.pop(name)
        lane.stop()
        shutil.rmtree(lane.checkpoint, ignore_errors=True)

    def check(self) -> None:
        for lane in list(self._lanes.values()):
            lane.check()

    def stop(self) -> None:
        for lane in self._lanes.values():
            lane.stop()

    def _check_slots(self, lanes: Mapping[str, Lane]) -> None:
        """Refuses lanes that would leave no task to the epochs: theirs never end."""
        slots, busy = self._spark.sparkContext.defaultParallelism, sum(lane.partitions for lane in lanes.values())
        if busy >= slots:
            raise RunError(
                f"the real-time sinks {', '.join(sorted(lanes))} keep {busy} tasks busy, one for each partition, and "
                f"Spark runs {slots} at a time: none would be left for epochs",
                hint=f"give Spark more: --master 'local[{busy + 2}]', or a larger cluster",
            )


def _check_stateless(rows: DataFrame) -> None:
    """Spark's own state would know nothing of our commits."""
    match = re.search(_STATEFUL, analyzed_plan(rows))
    if match is not None:
        raise _refused(f"DataFrame code keeps state: {match[1]}", "keep the state in a view")


def accepted(spark: SparkSession, source: Stream) -> DataFrame:
    """The rows that a stream accepts, all by Catalyst: well formed, and at a time that is not too far ahead."""
    log, schema = source.log, source.schema
    assert isinstance(log, Kafka)
    settings = {name: text for name, text in log.settings(schema.names).items() if name != "maxOffsetsPerTrigger"}
    frame = spark.readStream.format("kafka").options(**settings).load()
    steps = select(
        log.format, log.delimiter, dict(log.metadata), log.payload(schema), schema, schema.names, several=log.several
    )
    for step in steps:
        frame = frame.selectExpr(*step)
    if MALFORMED in frame.columns:
        frame = frame.filter(f"{MALFORMED} IS NULL")
    if source.event_time is not None:
        frame = frame.filter(f"({source.event_time}) IS NOT NULL")
        if source.max_ahead is not None:
            ahead = f"current_timestamp() + make_dt_interval(0, 0, 0, {source.max_ahead} / 1000000)"
            frame = frame.filter(f"CAST(({source.event_time}) AS TIMESTAMP) <= {ahead}")
    return frame.select(*(f"`{name}`" for name in schema.names))


def _partitions(source: Stream) -> int:
    """How many partitions the topics of a stream have."""
    log = source.log
    assert isinstance(log, Kafka)
    consumer = load().Consumer({**client_settings(log.bootstrap, dict(log.options)), "group.id": "penstock-lanes"})
    try:
        topics = consumer.list_topics(timeout=30.0).topics
    finally:
        consumer.close()
    chosen = [
        name for name in topics if (name in log.topics if log.pattern is None else re.fullmatch(log.pattern, name))
    ]
    return sum(len(topics[name].partitions) for name in chosen)


def _shown(column: str, kind: str) -> str:
    """A value as the sink's messages have it by epochs too: times as ISO text, decimals without losing a digit."""
    if kind == "timestamp":
        return f"concat(replace(CAST({column} AS STRING), ' ', 'T'), 'Z')"
    if kind.startswith("decimal"):
        return f"CAST({column} AS STRING)"
    element = kind.removeprefix("array<").removesuffix(">") if kind.startswith("array<") else ""
    if element and _shown("x", element) != "x":
        return f"transform({column}, x -> {_shown('x', element)})"
    return column
