"""An app with joins, processors, a pattern and views behind them, run on the engine without Spark.

Its steps are epochs of two streams and ticks. A step that failed, or that a process did not finish, is done again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import penstock as ps
from penstock.dataflow.join_stream import join_stream
from penstock.dataflow.process_stream import pattern_stream, processor_stream
from penstock.history.events.event_history import EventHistory
from penstock.history.events.sweep import sweep_orphans as sweep_history
from penstock.model.placement import Placement
from penstock.runtime.commit.consumers import Consumers
from penstock.runtime.commit.operators import OperatorSteps
from penstock.runtime.commit.shards import Shards
from penstock.runtime.engine import Engine
from penstock.runtime.epoch.origin import EpochOrigin
from penstock.runtime.state_keeper import MergeJob, StateKeeper
from penstock.state.operator_state import LIVE, SegmentRows
from penstock.state.segment import SegmentFile
from penstock.state.sweep import sweep_orphans, sweep_panes, sweep_replaced
from penstock.store import SqliteStore
from tests import outbox
from tests.faults.audit import SECOND, START, made_up
from tests.faults.segments import Fault, Points, TaskRows, Tasks, files_of

#: Events of an epoch.
SIZE = 12
SCHEMA = "k string, v bigint, at timestamp"
OPERATORS = ("joined", "sums", "rises", "beats", "totals", "priced")
VIEWS = ("by_joined", "by_sums", "by_rise", "by_beat", "by_total", "by_priced")
PLACEMENTS = {"by_joined": Placement("sharded", 4), "by_sums": Placement("sharded", 3)}


class Sums(ps.Processor):
    """The sum so far of each key, and what it was when the key was quiet for four seconds."""

    output = SCHEMA
    total = ps.value("bigint", default=0)

    def on_event(self, key, event, time):
        if event.v % 17 == 0:
            raise ValueError("refused")
        self.total += event.v
        self.set_timer(time + timedelta(seconds=4), name="quiet")
        yield {"k": key, "v": self.total, "at": time}

    def on_timer(self, key, timer):
        yield {"k": f"{key}!", "v": self.total, "at": timer.at}
        self.clear()


class Beats(ps.Processor):
    """How many events a key has had, given out by the clock."""

    output = SCHEMA
    n = ps.value("bigint", default=0)

    def on_event(self, key, event, time):
        self.n += 1
        self.set_timer(after="2 seconds", clock="processing", name="beat")
        return ()

    def on_timer(self, key, timer):
        yield {"k": key, "v": self.n, "at": timer.at}


def sources(log: Callable[[str], Any] = lambda name: None) -> tuple[ps.Stream, ps.Stream]:
    """The streams that the app reads."""
    mark = ps.bounded("5 seconds", idle=None)
    events = ps.stream(
        "events", log("events"), schema=f"id bigint, {SCHEMA}", event_time="at", watermark=mark, id="id", max_ahead=None
    )
    others = ps.stream(
        "others", log("others"), schema="k string, w bigint, seen timestamp", event_time="seen", watermark=mark,
        max_ahead=None,
    )  # fmt: skip
    return events, others


def define(
    operators: Sequence[str] = OPERATORS, log: Callable[[str], Any] = lambda name: None
) -> tuple[dict[str, ps.Stream], dict[str, ps.View]]:
    """Streams and views: all that read these operators or none. `sums` reads `joined`."""
    events, others = sources(log)
    joined = join_stream(
        "joined", events, others, on="k", within=("-2 seconds", "3 seconds"), how="left", prefix="r_", event_time="at",
        max_ahead=None,
    )  # fmt: skip
    flow = joined.where("v <> 3").select("k", "at", v="v + coalesce(w, 0)")
    sums = processor_stream("sums", flow, Sums, by="k", event_time="at", max_ahead=None)
    rising = ps.pattern("low", lambda e: e.v < 400).later("high", lambda e: e.v >= 600).within("20 seconds")
    rises = pattern_stream(
        "rises", events, rising, by="k", output=SCHEMA, event_time="at",
        give=lambda key, match: {"k": key, "v": match["high"][0].v, "at": match["high"][0].at},
    )  # fmt: skip
    beats = processor_stream("beats", events, Beats, by="k", event_time="at", max_ahead=None)
    totals = processor_stream("totals", events, Sums, by="k", event_time="at", max_ahead=None)
    gone = others.select("k", "w", "seen", gone="w = 0")
    priced = join_stream(
        "priced", events, gone.versions("k", deleted="gone"), how="left", event_time="at", max_ahead=None
    )
    tens = ps.fixed("10 seconds")
    views = {
        "by_joined": joined.group_by("k").window(tens).agg(n=ps.count(), pairs=ps.count("w"), v=ps.sum("v")),
        "by_sums": sums.group_by("k").agg(n=ps.count(), v=ps.sum("v")),
        "by_rise": rises.group_by("k").window(tens).agg(n=ps.count(), v=ps.sum("v")).retracting()
        .trigger(ps.on_time(early=ps.each())),
        "by_beat": beats.group_by("k").agg(n=ps.count(), v=ps.sum("v")),
        "by_total": totals.group_by("k").agg(n=ps.count(), v=ps.sum("v")),
        "by_priced": priced.group_by("k").window(tens).agg(n=ps.count(), w=ps.collect_list("w"), v=ps.sum("v")),
    }  # fmt: skip
    streams: dict[str, ps.Stream] = {"events": events, "others": others}
    made: dict[str, ps.Stream] = {
        "joined": joined, "sums": sums.stream, "rises": rises.stream, "beats": beats.stream, "totals": totals.stream,
        "priced": priced,
    }  # fmt: skip
    chosen = {view: views[view] for view, name in zip(VIEWS, OPERATORS, strict=True) if name in operators}
    return streams | {name: made[name] for name in operators}, chosen


@dataclass(frozen=True)
class Step:
    """An epoch of a stream with its number in that stream, or a tick."""

    stream: str | None
    number: int
    rows: tuple[dict[str, Any], ...] = ()


def made_steps(epochs: int, *, ticks: bool = True, seed: int = 5) -> list[Step]:
    """Epochs of both streams in turn, mostly in order of their times, and a tick after each pair."""
    rows = made_up(2 * epochs * SIZE, seed)
    steps: list[Step] = []
    for number in range(epochs):
        for one, name in enumerate(("events", "others")):
            some = rows[(2 * number + one) * SIZE : (2 * number + one + 1) * SIZE]
            if name == "others":
                some = [{"k": row["k"], "w": row["v"] % 7, "seen": row["at"]} for row in some]
            steps.append(Step(name, number, tuple(some)))
        steps += [Step(None, number)] if ticks else []
    return steps


class OperatorApp:
    """The app. With `few_rows` 0 operators and views are stepped in tasks, which run here; output is put into files."""

    def __init__(
        self, directory: Path, steps: Sequence[Step], operators: Sequence[str] = OPERATORS, few_rows: int = 20_000
    ) -> None:
        self.directory, self.steps, self.operators, self._few_rows = directory, steps, operators, few_rows
        self.tasks, self.session = Tasks(), None
        self.streams, self.views = define(operators)
        self.open()

    def open(self) -> None:
        self.phase = "a start"
        self._now = START
        self.store = SqliteStore.open(self.directory)
        self.store.lock()
        session: Any = self.session or self.tasks
        self.shards = Shards(
            self.store,
            lambda: session,
            PLACEMENTS,
            few_rows=self._few_rows,
            few_deltas=0 if not self._few_rows else 5000,
            many_rows=self._few_rows or 7,
        )
        self.history = EventHistory(self.store)
        self.engine = Engine(
            self.streams, self.store, START, lambda name: True, shards=self.shards, history=self.history
        )
        self.engine.registry.keep(self.views)
        self.keeper = StateKeeper(self.store, self.shards, None, lambda: self._now, self)

    def close(self) -> None:
        self.store.close()

    def restart(self) -> None:
        self.close()
        self.open()

    # what it does

    def run(self, faults: type[BaseException] | tuple[()] = (), after: Callable[[], object] = lambda: None) -> None:
        """All steps that are not committed yet. What fails is done again, after something."""
        while True:
            try:
                self.phase = "the replay"
                self.engine.begin_operators(self._now)
                for number, step in enumerate(self.steps):
                    if not self._is_done(step):
                        self.step(number, step)
                        self.look_after()
                return
            except faults:
                after()

    def _is_done(self, step: Step) -> bool:
        """Whether an epoch is committed. A tick that is done twice changes nothing the second time."""
        if step.stream is None:
            last = self.store.last()
            return last is not None and last.now > self._time_of(self.steps.index(step))
        progress = self.store.progress(step.stream)
        return progress is not None and progress.epoch >= step.number

    def _time_of(self, number: int) -> int:
        return START + (number + 1) * SECOND

    def step(self, number: int, step: Step) -> None:
        self._now = self._time_of(number)
        if step.stream is None:
            self.phase = "a tick"
            self.engine.tick(self._now)
            return
        self.phase = "an epoch"
        stream = self.streams[step.stream]
        assert stream.event_time is not None
        rows = pl.DataFrame(list(step.rows)).with_columns(
            pl.from_epoch(stream.event_time, time_unit="us").dt.replace_time_zone("UTC"),
            pl.lit(0, pl.Int32).alias("__partition"),
            (pl.int_range(pl.len(), dtype=pl.Int64) + step.number * SIZE).alias("__offset"),
        )
        columns = stream.schema.names  # all are kept
        origin = EpochOrigin(step.stream, step.number, str(step.number))
        table = rows.select(*columns, "__partition", "__offset").to_arrow()
        self.engine.epoch(step.stream, columns, self.frame(table), origin, self._now)

    def frame(self, rows: pa.Table) -> Any:
        """The rows of an epoch, in two tasks."""
        return TaskRows(self.tasks, [rows[: SIZE // 2], rows[SIZE // 2 :]])

    def look_after(self) -> None:
        """What goes on beside the epochs."""
        self.phase = "compaction"
        self.keeper.compact()
        self.phase = "the removal"
        sweep_replaced(self.store, self._now, -1)

    def sweep(self, now: int = 0) -> int:
        """Removes what is not listed and belongs to no attempt that runs."""
        orphans = sweep_orphans(self.store, self.shards.writes.ids)
        return orphans + sweep_history(self.history.place, self.store, self.history.home, self.history.writes)

    def sweep_panes(self, now: int = 0) -> int:
        return sweep_panes(self.store, self._now, -1)

    # what must hold

    def check_files(self) -> None:
        """After a sweep the files are those that are listed."""
        self.sweep()
        listed = set(self.store.query("SELECT path FROM __segments UNION SELECT path FROM __pane_files")["path"])
        assert files_of(Path(self.store.segments_at)) == listed
        kept = {file.path for file in self.store.listing().files}
        assert set(self.history.place.names(self.history.home)) == kept

    def result(self, *, panes: bool = True) -> dict[str, list[Any]]:
        """All that the app has come to, in an order of its own: two runs with the same result are equal."""
        found: dict[str, list[Any]] = {}
        for name in self.operators:
            state = self.store.operators.of(name)
            assert state.replayed == LIVE
            rows = self.history.past(self.streams[name]).read().sort("__offset")
            assert rows["__offset"].to_list() == list(range(state.rows_given)), "each row has its own position"
            found[f"rows of {name}"] = _sorted(rows.drop("__commit", "__offset"))
            for kind in self.store.operators.kinds(name).values():
                held = SegmentRows(state, kind).all()
                found[f"state of {name}: {kind.name}"] = _sorted(held.drop("__offset", "__source", strict=False))
        for view in self.views:
            found[view] = _sorted(self.store.state(view).table())
        found["refused"] = _sorted(self.store.query("SELECT kind, stream, view, reason, row FROM __refused"))
        found["counters"] = sorted(self.store.counters().items())
        if panes:
            found["panes"] = _sorted(outbox.panes(self.store).drop("id", "commit"))
        return found

    def checked(self, *, panes: bool = True) -> dict[str, list[Any]]:
        """Its result and files, as they are after another start."""
        self.restart()
        self.check_files()
        found = self.result(panes=panes)
        self.close()
        return found


def _sorted(rows: pl.DataFrame) -> list[Any]:
    return sorted(rows.select(sorted(rows.columns)).rows(), key=repr)


def compare(found: dict[str, list[Any]], want: dict[str, list[Any]]) -> None:
    """Says what differs."""
    assert found.keys() == want.keys()
    for name, rows in want.items():
        assert found[name] == rows, name


# fault points

STEPS = (
    "before an operator's step",
    "an operator's step: half of a file is written",
    "an operator's step: a file is written",
    "after an operator's step",
    "before made rows are reduced",
    "after made rows are reduced",
    "before the commit",
    "the commit: before its transaction ends",
    "the commit: after its transaction",
    "after the epoch",
    "after a tick",
    "before a merge",
    "compaction: half of a file is written",
    "compaction: a file is written",
    "before the list is replaced",
    "compaction: before its transaction ends",
    "compaction: after its transaction",
    "replaced files are removed, and listed still",
)
REPLAY = ("before a commit of the past", "after a commit of the past")


class OperatorPoints(Points):
    """The steps of an app with operators."""

    def __init__(self, patch: pytest.MonkeyPatch, app: OperatorApp, reach: Callable[[str], None]) -> None:
        super().__init__(patch, app, reach)
        around = self.around
        around(OperatorSteps, "step", "before an operator's step", "after an operator's step", "an operator's step")
        around(SegmentFile, "add", None, "{}: half of a file is written")
        around(SegmentFile, "close", None, "{}: a file is written")
        around(Consumers, "reduce_made", "before made rows are reduced", "after made rows are reduced", "made rows")
        around(SqliteStore, "commit", "before the commit", None, "the commit")
        around(SqliteStore, "_end", "{}: before its transaction ends", "{}: after its transaction")
        around(MergeJob, "run", "before a merge", None)
        around(SqliteStore, "replace_segments", "before the list is replaced", None)
        around(SqliteStore, "forget_segments", "replaced files are removed, and listed still", None)
        around(Engine, "epoch", None, "after the epoch")
        around(Engine, "tick", None, "after a tick")
        around(Engine, "_replay", *REPLAY, "a commit of the past")


def failing(left: dict[str, int]) -> Callable[[str], None]:
    """Each of these steps fails once, at the pass with a number. What has not failed is left."""

    def reach(step: str) -> None:
        if step in left:
            left[step] -= 1
            if not left[step]:
                del left[step]
                raise Fault(step)

    return reach
