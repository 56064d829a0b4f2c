"""A view on the kernel in this process: state in memory, commits as the engine makes them. For tests and experiments.

The engine on Spark does the same with reduce in Spark's tasks and state in the store.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from penstock.kernel.admit import admit
from penstock.kernel.deduplicate import deduplicate, forget, identify
from penstock.kernel.expressions import dtype
from penstock.kernel.fire import Time, shows
from penstock.kernel.memory import Memory
from penstock.kernel.merge import one_row
from penstock.kernel.plan import END, PLACE, START, Plan
from penstock.kernel.reduce import Reduced, reduce
from penstock.kernel.step import Change, step
from penstock.kernel.values import kernel_columns, model_rows, model_series
from penstock.model.alone import check_alone
from penstock.model.commits import FORGOTTEN, Commit, Event, Pane, Rejection, TableRow
from penstock.model.expressions import bind
from penstock.model.stream import Stream
from penstock.model.table import Snapshot, with_snapshots
from penstock.model.time import BEGINNING, Instant
from penstock.model.view import View
from penstock.model.watermarks import Observation, Tracker, ViewTime
from penstock.model.windows import Interval

Cut = Callable[[pl.DataFrame], Sequence[pl.DataFrame]]


class LocalKernel:
    """Runs one view on the kernel, commit by commit. `cut` splits an epoch's rows into batches, as tasks would."""

    def __init__(self, view: View, cut: Cut = lambda rows: [rows]) -> None:
        check_alone(view)
        self.view, self.plan, self._cut = view, Plan(view), cut
        self.streams: dict[str, Stream] = {source.name: source for source in view.input.sources}
        self.trackers = {n: Tracker(s.watermark) for n, s in self.streams.items() if s.watermark is not None}
        self.state = Memory(self.plan)
        self.state.live = one_row(self.plan)
        self.ids = {n: pl.DataFrame(schema=_id_schema(s)) for n, s in self.streams.items() if s.id is not None}
        self.time = ViewTime(self.trackers)
        self._tables: dict[str, Snapshot] = {}

    def _take_tables(self, tables: Mapping[str, tuple[tuple[object, ...], ...]]) -> None:
        """Switches to other versions of tables."""
        self._tables |= {name: Snapshot(0, rows=rows) for name, rows in tables.items()}
        if self._tables:
            self.plan = Plan(replace(self.view, input=with_snapshots(self.view.input, self._tables)), self.view)

    @property
    def watermark(self) -> Instant:
        return self.time.watermark

    # commit

    def commit(self, commit: Commit) -> tuple[list[Pane], list[Rejection]]:
        """One epoch or tick, in the form of the model."""
        if commit.resumed:
            self.time.resume(commit.now)
        self._take_tables(commit.tables)
        events = {(self.plan.sources[e.stream], e.partition, e.offset): e for e in commit.events}
        refused: list[Rejection] = []
        before = self.time.watermark
        reduced: list[Reduced] = []
        observed: dict[str, Observation] = {}
        for name, stream in self.streams.items():
            rows, observed[name] = self._admit(stream, commit, events, refused)
            if rows.height:
                reduced += [reduce(self.plan, name, batch, before) for batch in self._cut(rows) if batch.height]
        self.time.advance(observed, commit)
        for part in reduced:
            self._refuse_late(part.late, events, refused)
            self._refuse_dead(part.dead, events, refused)
        time = Time(before, self.time.watermark, commit.now, self.time.reached)
        change = self.step([part.deltas for part in reduced], time)
        self._refuse_late(change.late, events, refused)
        for name in self.ids:
            if name in self.trackers:
                self.ids[name] = forget(self.streams[name], self.ids[name], self.trackers[name].watermark)
        return panes_of(self.plan, change.panes), refused

    def step(self, deltas: Sequence[pl.DataFrame], time: Time) -> Change:
        """Merges a commit's deltas into the state in memory, and fires."""
        change = step(self.plan, deltas, self.state, time)
        self.state.apply(change)
        return change

    def _admit(
        self, stream: Stream, commit: Commit, events: dict[tuple[int, int, int], Event], refused: list[Rejection]
    ) -> tuple[pl.DataFrame, Observation]:
        own_events = [e for e in commit.events if e.stream == stream.name]
        frame = events_frame(stream, own_events, self.plan.sources[stream.name], kernel_columns(stream.schema))
        tracker = self.trackers.get(stream.name)
        admitted = admit(stream, frame, commit.now, BEGINNING if tracker is None else tracker.newest)
        self._refuse_dead(admitted.dead, events, refused)
        if stream.id is None:
            return admitted.rows, admitted.observed
        watermark = BEGINNING if tracker is None else tracker.watermark
        identified, known = identify(stream, admitted.rows), self.ids[stream.name]
        self._refuse_dead(identified.dead, events, refused)
        verdict = deduplicate(identified.rows, known, watermark, stream.id_horizon)
        self.ids[stream.name] = pl.concat([known, verdict.new_ids.select(known.columns)])
        source = self.plan.sources[stream.name]
        for partition, offset, kind, reason in verdict.rejected.iter_rows():
            refused.append(Rejection(kind, events[source, partition, offset], reason))
        rows = identified.rows.join(verdict.rejected, on=PLACE, how="anti", maintain_order="left")
        return rows.drop("__id"), admitted.observed

    def _refuse_dead(
        self, dead: pl.DataFrame, events: dict[tuple[int, int, int], Event], refused: list[Rejection]
    ) -> None:
        for source, partition, offset, reason in dead.iter_rows():
            refused.append(Rejection("dead", events[source, partition, offset], reason))

    def _refuse_late(
        self, late: pl.DataFrame, events: dict[tuple[int, int, int], Event], refused: list[Rejection]
    ) -> None:
        for source, partition, offset, missed, windows in late.iter_rows():
            which = "its window" if windows == 1 else f"{missed} of its {windows} windows"
            reason = FORGOTTEN if self.plan.forgets else f"{which} had closed"
            refused.append(Rejection("late", events[(source, partition, offset)], reason, missed, windows))

    # what comes out

    def table(self) -> list[TableRow]:
        """The view's table, in the form of the model."""
        columns = list(self.plan.value_schema)
        rows = pl.concat(
            [
                self.state.live.select(columns).with_columns(pl.lit(False).alias("final")),
                self.state.final.with_columns(pl.lit(True).alias("final")),
            ]
        )
        return table_of(self.plan, rows)

    def restart(self) -> LocalKernel:
        """The kernel as a restarted process would find it: everything goes through bytes."""
        other = LocalKernel(self.view, self._cut)
        for name in ("live", "final", "ghosts", "seen"):
            setattr(other.state, name, _through_bytes(getattr(self.state, name)))
        other.ids = {name: _through_bytes(frame) for name, frame in self.ids.items()}
        other.trackers = {n: Tracker.restore(t.definition, t.snapshot()) for n, t in self.trackers.items()}
        other.time = ViewTime(other.trackers, self.time.watermark)
        other._tables = self._tables
        return other


def table_of(plan: Plan, rows: pl.DataFrame) -> list[TableRow]:
    """Rows of value state with `final` as the view's table, in the form and the order of the model."""
    if plan.view.signed and not plan.view.has_one_row:
        rows = rows.filter(pl.col("__rows") != 0)
    answers, holds = shows(plan, rows, plan.columns)
    shown = rows.select(*plan.keys, START, END, "final").with_columns(answers)
    shown = (shown if holds is None else shown.filter(holds)).sort([*plan.keys, START, END])
    keys, windows, values = _parts(plan, shown)
    return [TableRow(k, w, v, f) for k, w, v, f in zip(keys, windows, values, shown["final"], strict=True)]


def panes_of(plan: Plan, frame: pl.DataFrame) -> list[Pane]:
    """Panes on columns in the form of the model."""
    keys, windows, values = _parts(plan, frame)
    rest = frame.select("__insert", "__timing", "__index", "__final").iter_rows()
    return [
        Pane(k, w, v, "insert" if insert else "retract", timing, index, final)
        for k, w, v, (insert, timing, index, final) in zip(keys, windows, values, rest, strict=True)
    ]


def _parts(plan: Plan, frame: pl.DataFrame) -> tuple[list[Any], list[Interval], list[Any]]:
    keys = model_rows(frame.select(plan.keys)) if plan.keys else [()] * frame.height
    windows = [Interval(*bounds) for bounds in frame.select(START, END).iter_rows()]
    return keys, windows, model_rows(frame.select(*plan.values))


def events_frame(
    stream: Stream, events: Sequence[Event], number: int, columns: Iterable[tuple[str, str]] | None = None
) -> pl.DataFrame:
    """Events of the model as the kernel's rows; of some columns only, where not all of them are the kernel's."""
    data: dict[str, pl.Series] = {}
    for name, kind in stream.schema if columns is None else columns:
        data[name] = model_series(name, kind, [event.row.get(name) for event in events])
    data["__source"] = pl.Series("__source", [number] * len(events), dtype=pl.Int32)
    data["__partition"] = pl.Series("__partition", [event.partition for event in events], dtype=pl.Int32)
    data["__offset"] = pl.Series("__offset", [event.offset for event in events], dtype=pl.Int64)
    return pl.DataFrame(data)


def _id_schema(stream: Stream) -> dict[str, pl.DataType]:
    assert stream.id is not None
    return {"__id": dtype(bind(stream.id, stream.schema).type or "string"), "__at": pl.Int64()}


def _through_bytes(frame: pl.DataFrame) -> pl.DataFrame:
    buffer = io.BytesIO()
    frame.write_ipc(buffer)
    buffer.seek(0)
    return pl.read_ipc(buffer).select(frame.columns)
