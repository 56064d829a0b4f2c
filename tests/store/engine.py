"""A small engine for tests: the kernel's commits with all state in a store, opened anew at every restart."""

from __future__ import annotations

import json
import uuid
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl

from penstock.kernel.admit import admit
from penstock.kernel.deduplicate import identify
from penstock.kernel.fire import Time
from penstock.kernel.local import Cut, events_frame
from penstock.kernel.local import table_of as kernel_table
from penstock.kernel.plan import PLACE, POSITION, Plan
from penstock.kernel.reduce import combine, reduce
from penstock.kernel.step import Change, step
from penstock.kernel.values import model_series
from penstock.model.commits import DUPLICATE, TOO_OLD, Commit, Event, Pane, Rejection, TableRow
from penstock.model.stream import Stream
from penstock.model.time import BEGINNING, END, instant
from penstock.model.view import View
from penstock.model.watermarks import Tracker, ViewTime
from penstock.model.windows import CountBased, Interval
from penstock.runtime.epoch.ids import id_step, left_out
from penstock.runtime.epoch.wire import late_reason
from penstock.state.ids import IdChange, ShardedIds, as_bytes, parted_ids
from penstock.state.segment import SegmentFile, shards
from penstock.state.step import SegmentChange, SegmentChanges, ShardStep, fixed_time, steps
from penstock.store import Commit as Record
from penstock.store import open_store
from tests.outbox import panes

NAME = "v"


class StoreEngine:
    """One view with its state in a store."""

    def __init__(
        self,
        view: View,
        directory: Path,
        cut: Cut = lambda rows: [rows],
        url: str | None = None,
        shards: Callable[[], int] | None = None,
    ) -> None:
        self.view, self.plan, self.directory, self._cut, self._url = view, Plan(view), directory, cut, url
        self._shards = shards
        self.streams = {source.name: source for source in view.input.sources}
        self.store = open_store(directory, url=url)
        self.store.lock()
        self.store.prepare({NAME: self.plan})
        if shards is not None and self.store.sharded(NAME) is None:
            self.store.shard(NAME, 8)
            for name in [name for name, stream in self.streams.items() if stream.id is not None]:
                self.store.known_ids.shard(name, 8)
        saved = self.store.trackers()
        self.trackers = {
            n: Tracker.restore(s.watermark, saved[n]) if n in saved else Tracker(s.watermark)
            for n, s in self.streams.items()
            if s.watermark is not None
        }
        self.time = ViewTime(self.trackers, self.store.view_times().get(NAME, BEGINNING))

    def commit(self, commit: Commit) -> tuple[list[Pane], list[Rejection]]:
        if commit.resumed:
            self.time.resume(commit.now)
        before, reduced, observed = self.time.watermark, [], {}
        refused: dict[str, list[pl.DataFrame]] = {}
        new_ids: dict[str, pl.DataFrame] = {}
        id_segments: dict[str, IdChange] = {}
        for name, stream in self.streams.items():
            events = [e for e in commit.events if e.stream == name]
            tracker = self.trackers.get(name)
            frame = events_frame(stream, events, self.plan.sources[name])
            admitted = admit(stream, frame, commit.now, BEGINNING if tracker is None else tracker.newest)
            rows, observed[name] = admitted.rows, admitted.observed
            self._refuse(refused, "dead", admitted.dead)
            if stream.id is not None:
                identified = identify(stream, rows)
                self._refuse(refused, "dead", identified.dead)
                ids = identified.rows.drop_nulls("__id").select("__id", "__at", *PLACE)
                known = self.store.known_ids.sharded(name)
                if known is None:
                    rejected = left_out(stream, tracker, self.store, ids, new_ids)
                else:
                    rejected, id_segments[name] = self._judged(stream, known, ids)
                source = pl.lit(self.plan.sources[name], pl.Int32).alias("__source")
                for (kind,), some in rejected.with_columns(source).group_by("__kind"):
                    self._refuse(refused, str(kind), some)
                rows = identified.rows.drop("__id").join(rejected, on=PLACE, how="anti", maintain_order="left")
            if rows.height:
                reduced += [reduce(self.plan, name, batch, before) for batch in self._cut(rows) if batch.height]
        self.time.advance(observed, commit)
        time = Time(before, self.time.watermark, commit.now, self.time.reached)
        changes, segments, late = self._step([part.deltas for part in reduced], time)
        for part in reduced:
            self._refuse(refused, "late", part.late)
            self._refuse(refused, "dead", part.dead)
        self._refuse(refused, "late", late)
        marks = {n: t.watermark for n, t in self.trackers.items() if t.watermark > BEGINNING and n in new_ids}
        last = self.store.query("SELECT value FROM __meta WHERE name = 'panes'").item()
        number = self.store.commit(
            Record(
                kind="tick",
                now=commit.now,
                changes=changes,
                segments=segments,
                view_times={NAME: self.time.watermark},
                trackers={n: t.snapshot() for n, t in self.trackers.items()},
                refused={kind: pl.concat(frames) for kind, frames in refused.items()},
                new_ids=new_ids,
                id_segments={
                    n: replace(change, expired=_forgotten(self.trackers.get(n), self.streams[n]))
                    for n, change in id_segments.items()
                },
                forget_ids={n: mark - self.streams[n].id_horizon for n, mark in marks.items()},
            )
        )
        return panes_of(self.view, panes(self.store).filter(pl.col("id") > last)), self._refused(number)

    def _judged(self, stream: Stream, known: ShardedIds, ids: pl.DataFrame) -> tuple[pl.DataFrame, IdChange]:
        step = id_step(stream, self.trackers.get(stream.name), known)
        count = self._shards() if self._shards is not None else 1
        rejected, added = [], []
        for number, (shard, rows) in enumerate(zip(shards(count), parted_ids(as_bytes(ids), count), strict=True)):
            verdict, encoded = step.within(shard)(rows, known.next_run)
            rejected.append(verdict.rejected)
            file = SegmentFile(known.root, f"{self.store.token}-{number}-{uuid.uuid4().hex}.arrow")
            file.add(encoded)
            added += file.close()
        return pl.concat(rejected), IdChange(tuple(added))

    def _step(
        self, deltas: list[pl.DataFrame], time: Time
    ) -> tuple[dict[str, Change], dict[str, SegmentChange], pl.DataFrame]:
        sharded = self.store.sharded(NAME)
        if sharded is None or self._shards is None:
            change = step(self.plan, deltas, self.store.state(NAME), time)
            return {NAME: change}, {}, change.late
        combined = [combine(self.plan, deltas)] if deltas else []
        root, run = sharded.root, sharded.next_run
        work = ShardStep(NAME, self.plan, root, sharded.segments, sharded.closed, run, fixed_time(self.plan, time))
        stepped = SegmentChanges(root, f"{self.store.token}-{run}-{uuid.uuid4().hex}")
        for result in steps(work, combined, self._shards()):
            stepped.add(result)
        change = stepped.change(self.plan)
        return {}, {NAME: change}, change.late

    def _refuse(self, refused: dict[str, list[pl.DataFrame]], kind: str, frame: pl.DataFrame) -> None:
        names = pl.DataFrame({"__source": list(self.plan.sources.values()), "stream": list(self.plan.sources)})
        rows = frame.join(names.cast({"__source": pl.Int32}), on="__source").select(
            "stream",
            pl.lit(None, pl.String).alias("view"),
            *(pl.col(column).alias(column.strip("_")) for column in POSITION[1:]),
            pl.lit(None, pl.Int64).alias("at"),
            _reason(kind, frame, self.plan).alias("reason"),
            pl.lit("{}").alias("row"),
            *(
                (pl.col(f"__{c}").cast(pl.Int64) if f"__{c}" in frame.columns else pl.lit(0, pl.Int64)).alias(c)
                for c in ("missed", "windows")
            ),
        )
        refused.setdefault(kind, []).append(rows)

    def _refused(self, number: int) -> list[Rejection]:
        sql = 'SELECT kind, stream, partition, "offset", reason, missed, windows FROM __refused WHERE "commit" = ?1'
        return [
            Rejection(kind, Event(stream, {}, partition, offset), reason, missed, windows)
            for kind, stream, partition, offset, reason, missed, windows in self.store.query(sql, [number]).rows()
        ]

    def table(self) -> list[TableRow]:
        if self._shards is not None:
            rows = kernel_table(self.plan, self.store.state(NAME).table())
            self.store.close()
            return rows
        found = table_of(self.view, self.store.query(f"SELECT * FROM {NAME}"))
        self.store.close()
        return found

    def restart(self) -> StoreEngine:
        self.store.close()
        return StoreEngine(self.view, self.directory, self._cut, self._url, self._shards)


def _forgotten(tracker: Tracker | None, stream: Stream) -> int | None:
    is_known = tracker is not None and tracker.watermark > BEGINNING
    return tracker.watermark - stream.id_horizon if is_known and tracker is not None else None


def _reason(kind: str, frame: pl.DataFrame, plan: Plan) -> pl.Expr:
    if kind == "dead":
        return pl.col("__reason")
    if kind == "duplicate":
        return pl.lit(DUPLICATE)
    return late_reason(plan) if "__missed" in frame.columns else pl.lit(TOO_OLD)


def types(view: View) -> list[str]:
    """The types of a view's keys and values."""
    keys = [view.bound(text).type or "string" for _, text in view.keys]
    return [*keys, *view.value_types.values()]


def table_of(view: View, frame: pl.DataFrame) -> list[TableRow]:
    """A view's table as SQL shows it, in the form and the order of the model."""
    width = len(view.keys)
    assert tuple(frame.columns) == view.columns
    rows = []
    for row in frame.iter_rows():
        key = [model_value(value, kind) for value, kind in zip(row[:width], types(view)[:width], strict=True)]
        values = [model_value(v, kind) for v, kind in zip(row[width + 2 : -1], types(view)[width:], strict=True)]
        rows.append(TableRow(tuple(key), window_of(view, *row[width : width + 2]), tuple(values), bool(row[-1])))
    columns = [
        model_series(f"k{number}", kind, [row.key[number] for row in rows])
        for number, kind in enumerate(types(view)[:width])
    ]
    bounds = [pl.Series(name, [getattr(r.window, name) for r in rows], dtype=pl.Int64) for name in ("start", "end")]
    order = pl.DataFrame([*columns, *bounds]).with_row_index("row").sort([*(c.name for c in columns), "start", "end"])
    return [rows[number] for number in order["row"]]


def window_of(view: View, start: object, end: object) -> Interval:
    if start is None:
        return Interval(BEGINNING, END)
    if isinstance(view.windows, CountBased):
        return Interval(int(str(start)), int(str(end)))
    return Interval(instant(f"{start}+00:00"), instant(f"{end}+00:00"))


def panes_of(view: View, frame: pl.DataFrame) -> list[Pane]:
    """The outbox in the form of the model."""
    width = len(view.keys)
    panes = []
    for pane in frame.iter_rows(named=True):
        assert pane["view"] == NAME
        key, values = json.loads(pane["key"]), json.loads(pane["values"])
        assert list(key) == [n for n, _ in view.keys]
        assert tuple(values) == view.values
        panes.append(
            Pane(
                tuple(model_value(v, kind) for v, kind in zip(key.values(), types(view)[:width], strict=True)),
                Interval(pane["start"], pane["end"]),
                tuple(model_value(v, kind) for v, kind in zip(values.values(), types(view)[width:], strict=True)),
                pane["kind"],
                pane["timing"],
                pane["index"],
                pane["final"],
            )
        )
    return panes


def model_value(value: Any, kind: str) -> Any:
    """A value of SQL or of JSON as the model has it."""
    if value is None:
        return None
    if kind == "timestamp":
        return instant(f"{value}+00:00")
    if kind == "date":
        return (date.fromisoformat(value) - date(1970, 1, 1)).days
    if kind in ("float", "double"):
        return float(value)
    if kind == "boolean":
        return bool(value)
    if kind == "binary" and isinstance(value, str):
        return b64decode(value)
    if kind.startswith("array<"):
        return [model_value(part, kind[6:-1]) for part in (json.loads(value) if isinstance(value, str) else value)]
    return value
