"""The parts of a run without Spark: queries that a test ends as it likes, and epochs that it hands in."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import polars as pl

import penstock as ps
from penstock.model.stream import Stream
from penstock.runtime.derived.commit_feed import CommitFeed
from penstock.runtime.engine import Engine
from penstock.runtime.groups import Groups
from penstock.runtime.outputs import Outputs
from penstock.runtime.queries.definitions import Definitions
from penstock.runtime.queries.epoch_loop import EpochLoop
from penstock.runtime.queries.lifecycle import Lifecycle
from penstock.runtime.queries.queries import Queries
from penstock.runtime.queries.retry import Retries
from penstock.runtime.queries.stream_query import StreamQuery
from penstock.runtime.queries.supervisor import QuerySupervisor
from penstock.runtime.queries.ticker import Ticker
from penstock.runtime.workspace import Workspace
from penstock.sources import Source
from penstock.store import SqliteStore
from penstock.store.checkpoints import Place
from tests.runtime.test_together import Frame

MINUTE = 60_000_000


class Nothing(Source):
    """A source that Spark would read. Here a test hands in the rows."""

    def read(self, spark: Any, schema: Any, columns: Any) -> Any:
        raise AssertionError("nobody reads it here")


def stream(name: str, **options: Any) -> Stream:
    return ps.stream(
        name, Nothing(), schema="k string, v bigint, at timestamp", event_time="at",
        watermark=ps.bounded("0 seconds"), **options,
    )  # fmt: skip


class FakeQuery:
    """A query of Spark's as far as a run looks at it."""

    def __init__(self, columns: tuple[str, ...], pool: str) -> None:
        self.columns, self.pool = columns, pool
        self.isActive, self.error = True, cast(BaseException | None, None)
        self.status: dict[str, Any] = {"isDataAvailable": False, "message": "Initializing"}
        self._jsq = SimpleNamespace(lastProgress=lambda: None)

    def exception(self) -> BaseException | None:
        return self.error

    def fail(self, error: BaseException) -> None:
        self.isActive, self.error = False, error
        self.status = {"isDataAvailable": False, "message": f"Terminated with exception: {error}"}

    def wait(self) -> None:
        """Spark has looked at the source, and there is nothing new."""
        self.status = {"isDataAvailable": False, "message": "Waiting for data to arrive"}

    def stop(self) -> None:
        self.isActive = False


class Rows(Frame):
    """A frame that belongs to a session. `on_job` is called when its job runs, with the pool of the epoch's thread."""

    def __init__(self, rows: Any, job: Any = None, on_job: Callable[[str | None], None] = lambda pool: None) -> None:
        super().__init__(rows, job)
        self._on_job, self._pool = on_job, cast(str | None, None)

    @property
    def sparkSession(self) -> Any:
        return SimpleNamespace(sparkContext=self)

    @property
    def _jsc(self) -> Any:
        """Java's context as far as jobs are counted: the tests' jobs are none of Spark's."""
        scheduler = SimpleNamespace(numTotalJobs=lambda: 0)
        return SimpleNamespace(sc=lambda: SimpleNamespace(dagScheduler=lambda: scheduler))

    def setLocalProperty(self, name: str, pool: str) -> None:
        self._pool = pool

    def mapInArrow(self, job: Any, schema: str) -> Frame:
        self._on_job(self._pool)
        return super().mapInArrow(job, schema)


class Seconds:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Parts:
    """All parts of a run over some streams and views, none of them started."""

    def __init__(
        self, folder: Path, streams: list[Stream], views: Mapping[str, ps.View] | None = None, patience: float = 100.0
    ) -> None:
        self.folder, self.started = folder, dict[str, list[FakeQuery]]()
        self.seconds, self.now = Seconds(), 0
        self.store = SqliteStore.open(folder)
        self.store.lock()
        self.lifecycle = Lifecycle(lambda: self.now, Retries(patience, clock=self.seconds))
        by_name = {one.name: one for one in streams}
        self.groups = Groups(by_name, views or {}, {}, self._engine)
        self.loop = EpochLoop(self.groups, self.store, self.lifecycle)
        spark: Any = None
        workspace = Workspace("app", folder, self.store, spark, Place(str(folder / "checkpoints")))
        self.queries = Queries(workspace, self.groups, self._launch, CommitFeed(), None)
        self.supervisor = QuerySupervisor(self.queries, self.groups, self.store, self.lifecycle)
        self.ticker = Ticker(self.groups, self.store, self.lifecycle, every=0.01)
        outputs = Outputs(workspace, self.groups, self.lifecycle, {})
        self.definitions = Definitions(workspace, self.groups, self.queries, outputs, self.lifecycle)
        for name in by_name:
            self.queries.follow(name)

    def _engine(self, streams: Any, flows: Any) -> Engine:
        return Engine(streams, self.store, self.now, lambda name: self.queries.is_caught_up(name), flows=flows)

    def _launch(self, query: StreamQuery, stream: Stream, pool: str) -> Any:
        made = FakeQuery(query.columns, pool)
        self.started.setdefault(query.name, []).append(made)
        return made

    def running(self, name: str) -> FakeQuery:
        return self.started[name][-1]

    def look(self) -> None:
        """What the supervisor does now and then, with what it starts."""
        self.supervisor.look()
        self.supervisor.join()

    def epoch(
        self,
        name: str,
        number: int,
        *rows: tuple[str, int],
        offsets: str | None = None,
        on_job: Callable[[str | None], None] = lambda pool: None,
    ) -> None:
        """An epoch as Spark calls for it: rows are a key and a minute."""
        query = self.queries[name]
        checkpoint = Path(str(query.checkpoint))
        (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": f"query-of-{name}"}))
        (checkpoint / "offsets" / str(number)).write_text(f"v1\n{{}}\n{offsets or json.dumps({'end': number})}")
        frame = pl.DataFrame(
            {"k": [key for key, _ in rows], "v": [1 for _ in rows], "at": [minute * MINUTE for _, minute in rows]},
            schema={"k": pl.String, "v": pl.Int64, "at": pl.Int64},
        ).with_columns(
            pl.col("at").cast(pl.Datetime("us", "UTC")),
            pl.lit(0, pl.Int32).alias("__partition"),
            (pl.int_range(pl.len(), dtype=pl.Int64) + number * 100).alias("__offset"),
        )
        given = frame.select(*query.columns, "__partition", "__offset").to_arrow()
        self.loop.take(query, Rows(given, on_job=on_job), number)  # type: ignore[arg-type]

    def close(self) -> None:
        self.lifecycle.stopping.set()
        self.supervisor.join()
        self.ticker.join()
        self.queries.close()
        self.store.close()


def in_thread(work: Any) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
