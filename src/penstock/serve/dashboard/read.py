"""Reads a snapshot from the store, in a few queries: numbers of different parts may be a commit apart."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.dataflow.graph import GRAPH, Graph, graph_from_json
from penstock.model.time import BEGINNING, END, SECOND, Instant, instant
from penstock.serve.alerts import AlertNow, read_alerts
from penstock.serve.askers import Askers, Question, ResultRows
from penstock.serve.dashboard.parts import reads, streams_of, view_of
from penstock.serve.dashboard.snapshot import (
    CommitNow,
    DelayNow,
    MarkNow,
    PaneNow,
    SinkNow,
    Snapshot,
    StreamNow,
    TableNow,
    ViewNow,
)
from penstock.serve.lookup import Lookup
from penstock.serve.shown import as_json
from penstock.serve.views import Catalog, CatalogSnapshot, ViewEntry
from penstock.store.block import Block, json_panes
from penstock.store.freshness import RECENT_ARRIVALS, RECENT_DELIVERIES, SPAN, commit_delays, freshness
from penstock.store.long_calls import LONG_CALLS, parsed
from penstock.store.marks import NEWEST
from penstock.store.segment_lookup import SegmentQuestion
from penstock.store.tables import quoted

#: How many of each are shown: commits, rejected rows, rows of a view, generations and audits.
COMMITS, REFUSED, ROWS, RUNS = 240, 300, 2_000, 200
#: Seconds over which rates are taken.
_OVER: Final = 6.0
#: Over how long delays of commits are shown.
_DELAYS: Final = 300 * SECOND
#: Among how many panes the newest one of a view is searched.
_NEAR: Final = 20_000

_EPOCHS: Final = """SELECT c.stream, CAST(sum(p.epoch + 1) AS BIGINT) FROM __progress p
    JOIN __commits c ON c.number = p."commit" WHERE c.stream IS NOT NULL GROUP BY c.stream"""
_META: Final = "SELECT coalesce((SELECT value FROM __meta WHERE name = 'panes'), 0)"
_COMMITS: Final = f"""SELECT number, kind, stream, epoch, now, rows, panes, timings, late_events, late_pairs, inputs,
    late_inputs, behind FROM __commits ORDER BY number DESC LIMIT {COMMITS}"""
_MARKS: Final = NEWEST.format(limit=COMMITS)
_REFUSED: Final = f"""SELECT rowid AS id, "commit", kind, stream, view, partition, "offset", at, reason, row
    FROM __refused ORDER BY rowid DESC LIMIT {REFUSED}"""
_PANES: Final = "SELECT view, CAST(sum(last - first + 1) AS BIGINT) FROM __outbox WHERE last > ?1 GROUP BY view"
_NEWEST: Final = """SELECT o.first, o.last, o."commit", o.panes, c.now FROM __outbox o
    LEFT JOIN __commits c ON c.number = o."commit" WHERE o.view = ?1 AND o.last > ?2 ORDER BY o.last DESC LIMIT 1"""
_SINKS: Final = "SELECT name, statement FROM __catalog WHERE kind = 'sink'"
_FILES: Final = """SELECT stream, kind, count(*) AS files, sum(rows) AS rows, sum(bytes) AS bytes, max(last) AS "commit"
    FROM __files WHERE removed IS NULL GROUP BY stream, kind ORDER BY stream, kind"""
_GENERATIONS: Final = f"""SELECT view, number, kind, point, "commit", now, statement FROM __generations
    ORDER BY now DESC, view, number DESC LIMIT {RUNS}"""
_AUDITS: Final = f"""SELECT at, view, "commit", rows, events, differences, problems, unable, seconds FROM __audits
    ORDER BY id DESC LIMIT {RUNS}"""


@dataclass
class _Rates:
    """How fast numbers grow, by what they were some seconds ago."""

    seen: deque[tuple[float, dict[str, int]]] = field(default_factory=deque)

    def note(self, now: float, numbers: dict[str, int]) -> None:
        self.seen.append((now, numbers))
        while len(self.seen) > 2 and self.seen[0][0] < now - _OVER:
            self.seen.popleft()

    def of(self, name: str) -> float:
        if len(self.seen) < 2:
            return 0.0
        (since, first), (until, last) = self.seen[0], self.seen[-1]
        grown = last.get(name, 0) - first.get(name, 0)
        return max(0.0, grown / (until - since)) if until > since and name in first else 0.0


class SnapshotReader:
    """Reads snapshots, one after the other: rates are what has changed since."""

    def __init__(self, askers: Askers, catalog: Catalog, why_stopped: Callable[[], str | None] = lambda: None) -> None:
        self._askers, self._catalog, self._why_stopped = askers, catalog, why_stopped
        self._rates = _Rates()
        self._fired: dict[str, int] = {}
        self._pane = 0

    async def read(self, watched: Collection[str] = ()) -> Snapshot:
        """A snapshot, with the rows of the views that open pages show."""
        known = await self._catalog.known(fresh=True)
        looked = [known.views[name] for name in watched if name in known.views]
        own = await self._own()
        tables = await self._looked(looked, own["panes"].rows[0][0])
        graph = graph_from_json(own["graph"].rows[0][0]) if own["graph"].rows else None
        alerts = await read_alerts(self._askers, known.views, graph)
        return self._snapshot(known, own, tables, graph, alerts)

    async def _own(self) -> dict[str, ResultRows]:
        now = time.time_ns() // 1000
        asked = {
            "panes": Question(_META),
            "commits": Question(_COMMITS),
            "refused": Question(_REFUSED),
            "fired": Question(_PANES, [self._pane]),
            "epochs": Question(_EPOCHS),
            "marks": Question(_MARKS),
            "catalog": Question(_SINKS),
            "graph": Question(GRAPH),
            "arrivals": Question(RECENT_ARRIVALS, [now - _DELAYS]),
            "deliveries": Question(RECENT_DELIVERIES, [now - SPAN]),
            "files": Question(_FILES),
            "calls": Question(LONG_CALLS),
            "generations": Question(_GENERATIONS),
            "audits": Question(_AUDITS),
        }
        return dict(zip(asked, await self._askers.own(*asked.values()), strict=True))

    async def _looked(self, views: list[ViewEntry], newest: int) -> dict[str, TableNow]:
        tables = {}
        for view in views:
            rows, pane = await self._askers.own(_rows_of(view), Question(_NEWEST, [view.name, newest - _NEAR]))
            table = as_json(view.columns, [row[: len(view.columns)] for row in rows.rows[:ROWS]])
            newest_pane = _last_pane(self._askers.segments_at, *pane.rows[0]) if pane.rows else None
            tables[view.name] = TableNow(table, len(rows.rows) > ROWS, newest_pane)
        return tables

    def _snapshot(
        self, known: CatalogSnapshot, own: Mapping[str, ResultRows], tables: dict[str, TableNow], graph: Graph | None,
        alerts: Sequence[AlertNow],
    ) -> Snapshot:  # fmt: skip
        newest = own["panes"].rows[0][0]
        if self._pane:  # else all that the outbox holds would seem to have fired just now
            for view, count in own["fired"].rows:
                self._fired[view] = self._fired.get(view, 0) + count
        self._pane = newest
        commits = [_commit(row) for row in own["commits"].rows]
        positions = {f"sink {name}": sink["position"] for name, sink in known.sinks.items()}
        events = {f"stream {name}": s["counters"].get("events", 0) for name, s in known.streams.items()}
        fired = {f"view {name}": self._fired.get(name, 0) for name in known.views}
        self._rates.note(time.monotonic(), {**positions, **events, **fired})
        logs: dict[str, str] = {}
        views = {name: self._view(view, logs) for name, view in known.views.items()}
        statements = dict(own["catalog"].rows)
        arrivals, deliveries = own["arrivals"].rows, own["deliveries"].rows
        since, epochs = time.time_ns() // 1000 - SPAN, dict(own["epochs"].rows)
        return Snapshot(
            commit=commits[0].number if commits else 0,
            committed=commits[0].at if commits else None,
            panes=newest,
            streams={
                name: self._stream(figures, logs, own["commits"], epochs) for name, figures in known.streams.items()
            },
            views=views,
            sinks={name: self._sink(figures, statements, views, newest) for name, figures in known.sinks.items()},
            commits=commits[::-1],
            marks=list(_marks(own["marks"].rows))[::-1],
            refused=_named(own["refused"]),
            generations=_named(own["generations"]),
            audits=_named(own["audits"]),
            files=_named(own["files"]),
            tables=tables,
            alerts=alerts,
            graph=graph,
            stopped=self._why_stopped(),
            freshness=freshness(arrivals, deliveries, {} if graph is None else graph.feeding, since),
            delays=[DelayNow(at, name, one.median, one.high) for at, name, one in commit_delays(arrivals)],
            long_calls=[call for (text,) in own["calls"].rows for call in parsed(text)],
        )

    def _stream(
        self, figures: Mapping[str, Any], logs: Mapping[str, str], commits: ResultRows, epochs: Mapping[str, int]
    ) -> StreamNow:
        name = figures["name"]
        behind = next((row[-1] for row in commits.rows if row[2] == name), None)
        mark = _instant(figures["watermark"])
        rate = self._rates.of(f"stream {name}")
        return StreamNow(name, logs.get(name, ""), figures["counters"], mark, behind, rate, epochs.get(name, 0))

    def _view(self, view: ViewEntry, logs: dict[str, str]) -> ViewNow:
        logs |= streams_of(view.definition)
        streams, views = reads(view.definition)
        mark = view.watermark if view.watermark is not None and BEGINNING < view.watermark < END else None
        return ViewNow(
            view.name, view.definition, view.columns, list(view.keys), view.has_windows, streams, mark,
            view.rests, self._rates.of(f"view {view.name}"), views,
        )  # fmt: skip

    def _sink(
        self, figures: Mapping[str, Any], statements: Mapping[str, str | None], views: Iterable[str], newest: int
    ) -> SinkNow:
        name = figures["name"]
        view = view_of(name, statements.get(name), views)
        behind = max(0, newest - figures["position"])
        return SinkNow(name, view, figures["position"], behind, self._rates.of(f"sink {name}"))


def _rows_of(view: ViewEntry) -> Question | SegmentQuestion:
    """The newest rows of a view, as a lookup finds them; without windows those with the highest values.

    Of a view in segments these are too many to sort again and again: any rows are shown.
    """
    numbers = ViewNow(view.name, "", view.columns, [], False, [], None, False, 0.0).numbers
    if view.has_windows or not numbers or view.in_segments:
        return Lookup(limit=ROWS).question(view)
    columns = ", ".join(quoted(name) for name in view.columns)
    text = f"SELECT {columns} FROM ({view.select}) r ORDER BY {quoted(numbers[0])} DESC, __k LIMIT {ROWS + 1}"
    return Question(text, (), ROWS + 1)


def _last_pane(root: str, first: int, last: int, commit: int, data: bytes, now: int | None) -> PaneNow:
    """The last pane of a block."""
    pane = json_panes(Block(first, last, commit, data, root=root).panes.tail(1)).row(0, named=True)
    return PaneNow(
        pane["id"], commit, pane["kind"], pane["timing"], pane["index"], pane["final"], pane["key"], now
    )  # fmt: skip


def _commit(row: list[Any]) -> CommitNow:
    number, kind, stream, epoch, now, rows, panes, timings, late, pairs, inputs, late_inputs, _ = row
    parts = {name: float(seconds) for name, seconds in json.loads(timings).items()}
    return CommitNow(
        number, kind, stream or "", epoch, now, rows or 0, panes, late, parts, pairs, inputs, late_inputs or 0
    )


def _marks(rows: list[list[Any]]) -> Iterable[MarkNow]:
    return (MarkNow(at, readers, mark) for at, readers, mark in rows if BEGINNING < mark < END)


def _named(result: ResultRows) -> list[dict[str, Any]]:
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


def _instant(text: str | int | None) -> Instant | None:
    return instant(text) if isinstance(text, str) else text
