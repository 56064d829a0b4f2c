"""What every job has: a table environment, its input of JSON lines, and its answer as CSV."""

import os
from pathlib import Path

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

#: Files are given out in no particular order, so windows wait for the past that they may hold.
DISORDER = "INTERVAL '1' HOUR"
SETTINGS = {
    "parallelism.default": os.environ["PEERS_CORES"],
    "execution.checkpointing.interval": "10 s",
    "pipeline.object-reuse": "true",
    "restart-strategy.type": "none",
    "table.local-time-zone": "UTC",
}


def session(memory="128 mb"):
    """`memory` is what all windows share: this much is Flink's own choice for one process."""
    own = Configuration().set_string("taskmanager.memory.managed.size", memory)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(own).build()
    environment = TableEnvironment.create(settings)
    for name, value in SETTINGS.items():
        environment.get_config().set(name, value)
    directory = os.environ["PEERS_OUTPUT"]
    environment.get_config().set("execution.checkpointing.dir", f"file://{directory}/checkpoints")
    if os.environ.get("PEERS_RECOVERS"):
        recover(environment.get_config(), Path(directory, "checkpoints"))
    if jars := os.environ.get("PEERS_JARS"):
        addresses = ";".join(f"file://{jar}" for jar in jars.split(os.pathsep))
        environment.get_config().set("pipeline.jars", addresses)
    return environment


def recover(config, checkpoints):
    """Takes a checkpoint each second, and goes on from the newest one."""
    config.set("execution.checkpointing.interval", "1 s")
    config.set("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION")
    whole = sorted(checkpoints.glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime)
    if whole:
        config.set("execution.state-recovery.path", f"file://{whole[-1].parent}")


def read(environment, name, columns, *, table=False):
    """A table of JSON lines, or of the CSV that events are joined with."""
    path, kind = (os.environ["PEERS_TABLE"], "csv") if table else (os.environ["PEERS_INPUT"], "json")
    times = ", 'json.timestamp-format.standard' = 'ISO-8601'" if kind == "json" else ""
    environment.execute_sql(
        f"CREATE TABLE {name} ({columns}) WITH ("
        f"'connector' = 'filesystem', 'path' = 'file://{path}', 'format' = '{kind}'{times})"
    )


def on_kafka(topic, way):
    """The options of a topic that is read from its beginning, or written."""
    servers = os.environ["PEERS_SERVERS"]
    start = ", 'scan.startup.mode' = 'earliest-offset'" if way == "read" else ""
    return (
        f"'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}', "
        f"'format' = 'json'{start}"
    )


def sink(environment, columns):
    """The table into which answers are written."""
    environment.execute_sql(
        f"CREATE TABLE answer ({columns}) WITH ("
        f"'connector' = 'filesystem', 'path' = 'file://{os.environ['PEERS_OUTPUT']}/answer', 'format' = 'csv')"
    )


def write(environment, columns, query):
    """Runs the query until its input is done."""
    sink(environment, columns)
    environment.execute_sql(f"INSERT INTO answer {query}").wait()
