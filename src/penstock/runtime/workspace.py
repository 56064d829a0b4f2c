"""What a run works with: its directory, the store, a Spark session and Spark's checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.model.stream import Stream
from penstock.private import protect
from penstock.runtime.errors import RunError
from penstock.runtime.queries.checkpoints import prepare_checkpoints, remove_empty
from penstock.runtime.queries.standby import taken
from penstock.runtime.spark.session import spark_session
from penstock.runtime.spark.starting import SparkStart as SparkStart
from penstock.sources import Source
from penstock.store import Keep, SqlStore, Standby, StoreError
from penstock.store.base import Gone
from penstock.store.checkpoints import Place, remember
from penstock.store.checkpoints import checkpoints as places

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("penstock.runtime")


@dataclass(frozen=True)
class SparkOptions:
    """How a run gets its session: one that is there, or a new one. `Run` says what each of them means."""

    session: SparkSession | SparkStart | None = None
    master: str = "local[*]"
    kafka: bool = False
    conf: Mapping[str, str] | None = None
    executor_python: str | None = None
    code: Sequence[Path] = ()


@dataclass(frozen=True)
class Workspace:
    """The app's name, its directory, and what is opened for it. The store is this process's to write."""

    app: str
    directory: Path
    store: SqlStore
    spark: SparkSession
    checkpoints: Place

    def prepare(self, streams: Mapping[str, Stream]) -> None:
        """Refuses checkpoints that do not fit the store, and remembers where they lie."""
        prepare_checkpoints(self.checkpoints, streams, self.store)
        remember(self.directory, self.checkpoints)

    def checkpoint(self, stream: str) -> Place:
        """Where Spark keeps how far it has read a stream."""
        return self.checkpoints / stream

    def close(self) -> None:
        """Gives the store's lock back. Where the directory was moved away, nothing is left."""
        is_gone = self._is_gone()
        self.store.close()
        if is_gone:
            remove_empty(self.directory)

    def _is_gone(self) -> bool:
        """Whether the store is no longer where it was."""
        try:
            self.store.check_place()
        except Gone:
            return True
        except StoreError:  # it was never opened to write
            return False
        return False


def open_workspace(
    app: str,
    directory: Path,
    streams: Mapping[str, Stream],
    spark: SparkOptions,
    *,
    store: SqlStore | str | None,
    keep: Keep,
    standby: bool | Standby,
    checkpoints: str | Path | None,
    group: str | None,
) -> Workspace:
    """Opens all that a run works with: the store first, for which a standby may have to wait."""
    if (note := protect(directory, group)) is not None:
        _log.warning("%s", note)
    opened = store if isinstance(store, SqlStore) else taken(directory, keep, standby, store, app)
    try:
        for stream in streams.values():
            if isinstance(stream.log, Source):
                stream.log.check_answer()
        begun = spark.session.session() if isinstance(spark.session, SparkStart) else spark.session
        session = begun or spark_session(
            app, master=spark.master, kafka=spark.kafka or reads_kafka(streams), options=spark.conf,
            executor_python=spark.executor_python, code=spark.code,
        )  # fmt: skip
    except BaseException:
        opened.close()  # gives the lock back
        raise
    return Workspace(app, directory, opened, session, places(directory, checkpoints))


def check_connector(spark: SparkSession, streams: Mapping[str, Stream]) -> None:
    """Refuses streams from Kafka where Spark runs without what reads them."""
    if reads_kafka(streams) and "kafka" not in (spark.conf.get("spark.jars", "") or ""):
        raise RunError("Spark was started without its Kafka connector", hint="start the app with --kafka")


def reads_kafka(streams: Mapping[str, Stream]) -> bool:
    """Whether one of these streams comes from Kafka."""
    return any(isinstance(stream.log, Source) and stream.log.needs_kafka for stream in streams.values())
