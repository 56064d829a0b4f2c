"""Steps views whose state is in segments: on the driver if there is little to do, else in Spark's tasks."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from penstock.errors import DefinitionError
from penstock.history.events.writes import WriteId, WritesInFlight
from penstock.kernel.fire import Time
from penstock.kernel.plan import Plan
from penstock.model.placement import SHARDS, Placement
from penstock.model.stream import Stream
from penstock.model.time import Instant
from penstock.model.watermarks import Tracker
from penstock.runtime.epoch.ids import EpochIds, IdsInShards, IdsInStore, id_step
from penstock.runtime.epoch.numbered_job import NumberedJob, run_in_tasks
from penstock.runtime.epoch.shard_job import ShardJob
from penstock.runtime.epoch.wire import Record
from penstock.runtime.errors import RunError
from penstock.runtime.spark.reach import check_reach
from penstock.state.sorted_rows import ScanMark
from penstock.state.spool import FOLDER, Receivers, Spool, SpooledDeltas
from penstock.state.step import SegmentChange, SegmentChanges, ShardStep, fixed_time, parted
from penstock.store.sharded_view import ShardedView

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.store import Store

_log = logging.getLogger("penstock.runtime")

#: Up to this number of rows the driver steps a view by itself: a Spark job would take longer.
FEW_ROWS: Final = 20_000
#: Up to this number of deltas of a view, a task sends them to the driver.
FEW_DELTAS: Final = 5_000
#: More panes of a view in one commit go from the tasks to files, and not through the driver.
FEW_PANES: Final = 20_000
#: With more open windows than this the state of a view moves into segments.
LARGE: Final = 250_000


class Shards:
    """Large state of a run. `placements` are the users' choices by view; others are decided by size."""

    def __init__(
        self,
        store: Store,
        session: Callable[[], SparkSession] | None = None,
        placements: Mapping[str, Placement] | None = None,
        *,
        few_rows: int = FEW_ROWS,
        few_deltas: int = FEW_DELTAS,
        few_panes: int = FEW_PANES,
        large: int = LARGE,
        many_rows: int | None = None,
    ) -> None:
        self._store, self._session = store, session
        self._placements = {} if placements is None else placements
        self._few_rows, self._few_deltas, self._few_panes, self.large = few_rows, few_deltas, few_panes, large
        #: With more rows than this the output of an operator's step goes to a file; None: as an operator has it.
        self.many_rows = many_rows
        self._looked: dict[str, ScanMark] = {}
        self._shared: bool | None = None  # not known yet
        #: Attempts that write segments now.
        self.writes = WritesInFlight()
        #: What tasks need to report user code that hangs: a `TaskWatch`, or None.
        self.watch: Any = None
        #: Spark jobs that steps have started.
        self.jobs = 0

    # where state lives

    def placement(self, view: str) -> Placement:
        """The choice for a view."""
        return self._placements.get(view, Placement())

    def place(self, views: Sequence[str], now: Instant) -> None:
        """Moves views whose users ask for it, and those that are to have another number of shards."""
        for name in views:
            chosen, sharded = self.placement(name), self._store.sharded(name)
            if sharded is not None and chosen.kind == "store":
                raise DefinitionError(
                    f"the state of the view '{name}' is in segments, and state='store' asks for the store",
                    hint="nothing moves back by itself: leave out state=, or drop the view and compute it again",
                )
            if sharded is None and chosen.kind == "sharded":
                self._check_reach()
                self._store.shard(name, chosen.count)
            elif sharded is not None and chosen.shards not in (None, sharded.shards):
                self._store.shard(name, chosen.count)

    def moves(self, view: str, rows: int) -> bool:
        """Whether a view in the store with this number of open windows should move into segments."""
        return rows > self.large and self._may_move(view)

    def _may_move(self, view: str) -> bool:
        return self.placement(view).kind == "auto" and self._store.moves_by_size and self._is_shared()

    def _is_shared(self) -> bool:
        """Whether driver and executors share the folder of segments. If not, state stays in the store."""
        if self._shared is None:
            try:
                self._check_reach()
                self._shared = True
            except RunError as error:
                _log.warning("large views stay in the store: %s", error)
                self._shared = False
        return self._shared

    def _check_reach(self) -> None:
        if self._session is not None:
            check_reach(
                self._session(), Path(self._store.segments_at), "they write the state of large views there",
                "put the app's directory on a file system that is mounted everywhere, or set state='store'",
            )  # fmt: skip

    def receivers(self, number: int, view: str, plan: Plan) -> Receivers | None:
        """Which tasks get many deltas of a view: if its state is in segments, or moves there because of them."""
        sharded = self._store.sharded(view)
        if not plan.keys:
            return None
        if sharded is not None:
            return Receivers(number, self._tasks(sharded.shards), self._few_deltas)
        return Receivers(number, self._tasks(self.placement(view).count), self.large) if self._may_move(view) else None

    def tasks_for(self, rows: int, few_rows: int) -> int:
        """How many tasks step `rows` of an operator; 1 means the driver itself, for few rows."""
        few = few_rows if self._few_rows else 0
        if rows <= few or self._session is None or not self._is_shared():
            return 1
        return self._tasks(SHARDS)

    def _tasks(self, shards: int) -> int:
        if self._session is None:
            return 1
        return max(1, min(shards, self._session().sparkContext.defaultParallelism))

    # an epoch

    @contextmanager
    def writing(self) -> Iterator[Spool]:
        """An epoch or a tick, which may write files. What it spools is removed at its end."""
        write_id = f"{self._store.token}-state-{uuid.uuid4().hex[:12]}"
        root = self._store.segments_at
        with self.writes.running(write_id):
            try:
                yield Spool(root, write_id)
            finally:
                folder = Path(root) / FOLDER
                if folder.is_dir():
                    for path in folder.glob(f"{write_id}.*"):
                        path.unlink(missing_ok=True)

    def step(
        self,
        view: ShardedView,
        plan: Plan,
        time: Time,
        deltas: pl.DataFrame | None,
        spooled: Sequence[SpooledDeltas],
        write_id: WriteId,
        *,
        panes_here: bool,
    ) -> SegmentChange:
        """One commit of a view. `panes_here`: its panes are needed on the driver, however many they are."""
        looked = self._looked.get(view.name, ScanMark())
        work = ShardStep(
            view.name, plan, view.root, view.segments, view.closed, view.next_run, fixed_time(plan, time), looked=looked
        )
        rows = (0 if deltas is None else deltas.height) + sum(one.rows for one in spooled)
        due = work.state().due_rows(time)
        if not rows and not due:
            return SegmentChange.empty(plan)
        counts = {len(one.parts) for one in spooled} or {self._tasks(view.shards)}
        many = rows + due > self._few_rows and self._session is not None and plan.keys
        if many and len(counts) == 1:  # else executors have come or gone between two jobs of the epoch
            tasks = counts.pop()
            parts = () if deltas is None or not deltas.height else tuple(parted(plan, deltas, tasks))
            few_panes = None if panes_here else self._few_panes // tasks
            job = ShardJob(work, tasks, write_id, tuple(spooled), parts, few_panes)
            return job.gathered(self.run(job))
        own = [deltas] if deltas is not None and deltas.height else []
        own += [part for one in spooled for n in range(len(one.parts)) if (part := one.read(view.root, n)) is not None]
        with SegmentChanges(view.root, f"{write_id}.{uuid.uuid4().hex}") as changes:
            changes.add(work(own))
            return changes.change(plan)

    def run(self, job: NumberedJob) -> list[Record]:
        """Runs a job in Spark's tasks; the records that they send."""
        assert self._session is not None
        self.jobs += 1
        return run_in_tasks(self._session(), job, job.tasks)

    # ids

    def identifier(self, stream: Stream, tracker: Tracker | None, spool: Spool) -> EpochIds:
        """Judges the ids of an epoch, where those that are known are."""
        known = None if stream.id is None else self._store.known_ids.sharded(stream.name)
        if known is None:
            return IdsInStore(stream, tracker, self._store)
        run = None if self._session is None else self.run
        receivers = Receivers(0, self._tasks(known.shards), self._few_deltas)
        return IdsInShards(stream, id_step(stream, tracker, known), spool, receivers, self._few_rows, run)

    def move_ids(self, stream: str, now: Instant) -> bool:
        """Moves the known ids of a stream into segments, if they are many."""
        if not self._store.moves_by_size or self._store.known_ids.sharded(stream) is not None or not self._is_shared():
            return False
        if self._store.known_ids.count(stream, self.large + 1) <= self.large:
            return False
        self._store.known_ids.shard(stream, SHARDS)
        return True

    def committed(self, view: str, run: int, now: Instant) -> None:
        """A step is committed: all rows of its runs that were due have been looked at."""
        self._looked[view] = ScanMark(run, now)
