"""An app whose state is in segments, run without Spark, and what is on disk at each step of it.

Tasks run here, one after the other. A fault point copies the app's directory: that is what a process would leave behind
that is killed there. Or it raises an error, as a full disk does.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl
import pyarrow as pa
import pytest
from pyspark import TaskContext

import penstock as ps
from penstock.model.placement import Placement
from penstock.query.ask import Questions
from penstock.runtime.commit.shards import Shards
from penstock.runtime.engine import Engine
from penstock.runtime.epoch import shard_job
from penstock.runtime.epoch.ids import IdShardJob
from penstock.runtime.epoch.job import task_number
from penstock.runtime.epoch.needs import needed
from penstock.runtime.epoch.origin import EpochOrigin
from penstock.runtime.state_keeper import MergeJob, StateKeeper
from penstock.sinks.base import newest_pane
from penstock.state.segment import SegmentFile
from penstock.state.spool import Spool
from penstock.state.sweep import sweep_orphans, sweep_panes, sweep_replaced
from penstock.store import Reader, SqliteStore
from penstock.store.known_ids import KnownIds
from tests.faults.app import define
from tests.faults.audit import SECOND, START, Audit
from tests.runtime.parts import Nothing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACEMENTS = {"counts": Placement("sharded", 4), "sessions": Placement("sharded", 3)}
QUERY = "query"
#: Events of an epoch, and so many open windows or ids make a view or a stream large.
SIZE, LARGE = 60, 100
#: So many of the newest panes stay in the outbox.
KEPT_PANES = 60


class Fault(Exception):
    """A step fails."""


# tasks


@contextmanager
def task(number: int) -> Iterator[None]:
    """Code in here runs as a task of Spark's with this number."""
    before, TaskContext._taskContext = TaskContext._taskContext, SimpleNamespace(partitionId=lambda: number)
    try:
        yield
    finally:
        TaskContext._taskContext = before


class Tasks:
    """As much of a session as jobs ask for. `run` does what one task does; others may replace it."""

    def __init__(self, count: int = 2) -> None:
        self.sparkContext = SimpleNamespace(
            master="local[2]", defaultParallelism=count, setLocalProperty=lambda *_: None
        )
        self.run: Callable[[Any, Sequence[pa.RecordBatch]], list[pa.RecordBatch]] = lambda job, rows: list(job(rows))

    def range(self, first: int, last: int, step: int, count: int) -> TaskRows:
        return TaskRows(self, [pl.DataFrame({"id": [n]}).to_arrow() for n in range(count)])


class TaskRows:
    """As much of a DataFrame as the engine asks for: a job runs on each of its parts."""

    def __init__(self, tasks: Tasks, parts: Sequence[pa.Table], job: Any = None) -> None:
        self._tasks, self._parts, self._job = tasks, parts, job

    @property
    def columns(self) -> list[str]:
        return self._parts[0].column_names

    def persist(self) -> TaskRows:
        return self

    def unpersist(self) -> None:
        return None

    def mapInArrow(self, job: Any, schema: str) -> TaskRows:
        return TaskRows(self._tasks, self._parts, job)

    def toArrow(self) -> pa.Table:
        batches: list[pa.RecordBatch] = []
        for number, part in enumerate(self._parts):
            with task(number):
                batches += self._tasks.run(self._job, part.to_batches())
        schema = pa.schema([("kind", pa.string()), ("number", pa.int32()), ("data", pa.binary())])
        return pa.Table.from_batches(batches, schema if not batches else batches[0].schema)


# the app


class SegmentApp:
    """The app of `define` with two views in segments, and one that moves there when it is large, as its ids do.

    After each epoch runs are merged, and replaced files are removed. Without `spark`, tasks run here.
    """

    def __init__(
        self,
        directory: Path,
        rows: Sequence[dict[str, Any]],
        spark: SparkSession | None = None,
        few_deltas: int = 0,
        few_panes: int = 0,
    ) -> None:
        self.directory, self.rows, self.tasks = directory, rows, Tasks()
        self._spark, self._few_deltas, self._few_panes = spark, few_deltas, few_panes
        app, events = define(Nothing())
        app.view("by_id", events.group_by("id").agg(n=ps.count()))
        self._streams, self._views = app.streams, app.views
        self.open()

    def open(self) -> None:
        self.phase = "a start"
        self.store = SqliteStore.open(self.directory)
        self.store.lock()
        session: Any = self._spark or self.tasks
        self.shards = Shards(
            self.store,
            lambda: session,
            PLACEMENTS,
            few_rows=0,
            few_deltas=self._few_deltas,
            few_panes=self._few_panes,
            large=LARGE,
        )
        self.engine = Engine(
            self._streams, self.store, self.now, lambda name: True, shards=self.shards, open_rows=LARGE
        )
        self.engine.registry.keep(self._views)
        self.keeper = StateKeeper(self.store, self.shards, None, lambda: self.now, self)

    def close(self) -> None:
        self.store.close()

    def restart(self) -> None:
        self.close()
        self.open()

    # what it does

    @property
    def done(self) -> int:
        """Epochs that are committed."""
        progress = self.store.progress(QUERY)
        return 0 if progress is None else progress.epoch + 1

    @property
    def now(self) -> int:
        return START + self.done * SECOND

    def run(self, faults: type[BaseException] | tuple[()] = (), after: Callable[[], object] = lambda: None) -> None:
        """All epochs that are not committed yet. What fails is done again, after something."""
        while True:
            try:
                while self.done * SIZE < len(self.rows):
                    self.epoch(self.done)
                    self.look_after()
                self.look_after()
                return
            except faults:
                after()

    def epoch(self, number: int) -> None:
        """The epoch with this number."""
        self.phase = "an epoch"
        rows = pl.DataFrame(self.rows[number * SIZE : (number + 1) * SIZE]).with_columns(
            pl.from_epoch("at", time_unit="us").dt.replace_time_zone("UTC"),
            pl.lit(0, pl.Int32).alias("__partition"),
            (pl.int_range(pl.len(), dtype=pl.Int64) + number * SIZE).alias("__offset"),
        )
        columns = needed(self._streams["events"], self.engine.registry.lowered)
        rows = rows.select(*columns, "__partition", "__offset")
        parts = [rows[: SIZE // 2].to_arrow(), rows[SIZE // 2 :].to_arrow()]
        origin = EpochOrigin(QUERY, number, str(number))
        self.engine.epoch("events", columns, self.frame(parts), origin, self.now + SECOND)  # type: ignore[arg-type]

    def frame(self, parts: Sequence[pa.Table]) -> Any:
        """The rows of an epoch, a part for each task."""
        if self._spark is not None:
            return self._spark.createDataFrame(pa.concat_tables(parts)).repartition(len(parts))
        return TaskRows(self.tasks, parts)

    def look_after(self) -> None:
        """What goes on beside the epochs."""
        self.phase = "the move of ids"
        self.shards.move_ids("events", self.now)
        self.phase = "compaction"
        self.keeper.compact()
        self.phase = "the removal"
        self.remove_replaced()
        self.phase = "the trimming of panes"
        self.store.trim_outbox(newest_pane(self.store) - KEPT_PANES)
        self.phase = "the removal of panes"
        self.sweep_panes()

    def remove_replaced(self, grace: int = -1) -> None:
        """Files of segments that were replaced longer than a grace ago go; without one, those of this instant too."""
        sweep_replaced(self.store, self.now, grace)

    # files

    def listed(self) -> set[str]:
        """The files that the store lists, replaced ones too."""
        paths = self.store.query("SELECT path FROM __segments UNION SELECT path FROM __pane_files")["path"]
        return set(paths)

    def files(self) -> set[str]:
        return files_of(Path(self.store.segments_at))

    def sweep_panes(self, now: int = 0) -> int:
        """Removes the files of panes that are trimmed."""
        return sweep_panes(self.store, self.now, -1)

    def sweep(self, now: int = 0) -> int:
        """Removes what is not listed and belongs to no attempt that runs."""
        return sweep_orphans(self.store, self.shards.writes.ids)

    # what must hold

    def check(self) -> dict[str, set[int]]:
        """All events count once, and after a sweep the files are those that are listed."""
        self.sweep()
        assert self.files() == self.listed()
        assert {"counts", "sessions"} <= set(self.store.sharded_names())
        self.close()
        reader = Reader(self.directory)
        by_id = Questions(reader).ask("SELECT id, n FROM by_id").table.to_pylist()
        reader.close()
        assert sorted(row["id"] for row in by_id) == sorted({row["id"] for row in self.rows})
        assert {row["n"] for row in by_id} == {1}
        return Audit(self.directory, self.rows).run()


def files_of(root: Path) -> set[str]:
    """The files of segments and of deltas, relative to their folder."""
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def swept(root: Path, running: Iterable[str], listed: set[str]) -> int:
    """Removes files that are not listed, by their names: except those of attempts that run."""
    kept = set(running)
    orphans = [name for name in files_of(root) - listed if name.rpartition("/")[2].partition(".")[0] not in kept]
    for name in orphans:
        (root / name).unlink()
    return len(orphans)


# tasks of Spark's that fail


@dataclass(frozen=True)
class FailingJob:
    """A job whose first task fails when it has written its file, the first time that it runs in a folder."""

    job: Any
    folder: str

    @property
    def tasks(self) -> int:
        return self.job.tasks

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sent = list(self.job(batches))
        mark = Path(self.folder) / type(self.job).__name__
        if task_number() == 0 and not mark.exists():
            mark.touch()
            raise Fault(mark.name)
        yield from sent


# fault points

STEPS = (
    "a task has spooled its deltas",
    "an epoch: half of a file is written",
    "an epoch: a file is written",
    "ids: half of a file is written",
    "ids: a file is written",
    "ids are judged",
    "before the commit",
    "the commit: before its transaction ends",
    "the commit: after its transaction",
    "after the epoch",
    "before the move of a view",
    "the move of a view: half of a file is written",
    "the move of a view: a file is written",
    "the move of a view: before its transaction ends",
    "the move of a view: after its transaction",
    "before the move of ids",
    "the move of ids: half of a file is written",
    "the move of ids: a file is written",
    "the move of ids: before its transaction ends",
    "the move of ids: after its transaction",
    "before a merge",
    "compaction: half of a file is written",
    "compaction: a file is written",
    "before the list is replaced",
    "compaction: before its transaction ends",
    "compaction: after its transaction",
    "replaced files are removed, and listed still",
    "the removal: before its transaction ends",
    "the removal: after its transaction",
    "an epoch: half of the panes of a view are written",
    "an epoch: panes are in a file",
    "the trimming of panes: before its transaction ends",
    "the trimming of panes: after its transaction",
    "files of panes are removed, and listed still",
    "the removal of panes: before its transaction ends",
    "the removal of panes: after its transaction",
)


class Phased(Protocol):
    """An app that says what it is doing."""

    phase: str


class Points:
    """Calls `reach` with the name of each step that an app comes to."""

    def __init__(self, patch: pytest.MonkeyPatch, app: Phased, reach: Callable[[str], None]) -> None:
        self._patch, self._app, self._reach = patch, app, reach

    def around(self, owner: Any, name: str, before: str | None, after: str | None, phase: str | None = None) -> None:
        """Points before and after a method, or a function of a module, which belongs to a phase."""
        inner, app = getattr(owner, name), self._app

        def outer(*arguments: Any, **options: Any) -> Any:
            outside = app.phase
            app.phase = phase or outside
            try:
                if before is not None:
                    self._reach(before.format(app.phase))
                done = inner(*arguments, **options)
                if after is not None:
                    self._reach(after.format(app.phase))
            finally:
                app.phase = outside
            return done

        self._patch.setattr(owner, name, outer)


class FaultPoints(Points):
    """The steps of an app whose views are in segments."""

    def __init__(self, patch: pytest.MonkeyPatch, app: Phased, reach: Callable[[str], None]) -> None:
        super().__init__(patch, app, reach)
        around = self.around
        around(Spool, "put", None, "a task has spooled its deltas")
        around(SegmentFile, "add", None, "{}: half of a file is written")
        around(SegmentFile, "close", None, "{}: a file is written")
        around(IdShardJob, "judged", None, "ids are judged", "ids")
        around(SqliteStore, "commit", "before the commit", None, "the commit")
        around(SqliteStore, "shard", "before the move of a view", None, "the move of a view")
        around(KnownIds, "shard", "before the move of ids", None, "the move of ids")
        around(MergeJob, "run", "before a merge", None)
        around(SqliteStore, "replace_segments", "before the list is replaced", None)
        around(SqliteStore, "forget_segments", "replaced files are removed, and listed still", None)
        around(shard_job, "write_panes", "{}: half of the panes of a view are written", "{}: panes are in a file")
        around(SqliteStore, "forget_pane_files", "files of panes are removed, and listed still", None)
        around(SqliteStore, "_end", "{}: before its transaction ends", "{}: after its transaction")
        around(Engine, "epoch", None, "after the epoch")


def copy_of(directory: Path, target: Path) -> Path:
    """What is on disk now. Another process copies it: one that opens SQLite's files itself would lose its locks."""
    subprocess.run(["cp", "-a", str(directory), str(target)], check=True)
    return target
