"""The audit: recomputes views from the master and the recorded decisions, and compares every row with the store.

What is compared is what people read and, where it is exact, the state behind it. A row that differs is shown with both
values and with events of the master that belong to it. The app may run meanwhile: all is judged as of one commit.
"""

from __future__ import annotations

import shutil
import tempfile
import time as clock_time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from penstock.errors import PenstockError, unknown
from penstock.history.batch.as_live import Decisions, LiveReading
from penstock.history.batch.differences import PLACE, compared, differing, scope, sketchy
from penstock.history.batch.table_rows import table_rows
from penstock.history.batch.versions import Untold, Versions
from penstock.history.events.master import Master, MasterPast
from penstock.history.events.past import Past
from penstock.history.events.pins import pinned
from penstock.history.events.verify import verify
from penstock.kernel.plan import END, START, Plan
from penstock.model.aggregates import Paired
from penstock.model.stream import Stream, branches
from penstock.model.table import tables
from penstock.model.time import BEGINNING, Instant, show_instant
from penstock.model.view import View
from penstock.model.windows import Counted, Global
from penstock.runtime.epoch.analyst import Analyst, applied
from penstock.runtime.epoch.catalyst import lower
from penstock.runtime.epoch.feeds import Lowered
from penstock.store import Reader, SqliteStore
from penstock.store.tables import Layout, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: So many rows that differ are shown, each with so many events.
SHOWN: Final = 10
EVENTS: Final = 5

Told = Callable[[str, float], None]


@dataclass(frozen=True)
class Row:
    """A row that is not what it should be: key and window, what differs (stored, computed), and events behind it."""

    key: Mapping[str, object]
    window: str
    kind: str  # differs, missing (the store lacks it), extra (nothing computes it)
    values: Mapping[str, tuple[object, object]]
    events: Sequence[Mapping[str, object]] = ()


@dataclass
class Audited:
    """What an audit of a view has found. `unable` says why none could be made."""

    view: str
    commit: int
    rows: int = 0
    events: int = 0
    differences: int = 0
    shown: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # of the master, or of the definition
    unable: str | None = None
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        return not self.differences and not self.problems


@dataclass(frozen=True)
class _Moment:
    """The view in the store, all as of one commit."""

    commit: int
    now: Instant
    watermark: Instant
    definition: str
    fingerprint: str
    since: int
    point: int
    kind: str | None
    woken: int | None
    late: int
    rows: pl.DataFrame


@dataclass(frozen=True)
class Basis:
    """What live held can be computed again: up to `point` nothing was late; rows are of the commits after `after`."""

    point: int
    after: int
    unable: str | None


class Audit:
    """Audits the views of one app, with whatever Spark session there is."""

    def __init__(
        self,
        spark: SparkSession,
        reader: Reader,
        streams: Mapping[str, Stream],
        views: Mapping[str, View],
        master: Master,
    ) -> None:
        self._spark, self._reader, self._streams, self._views, self._master = spark, reader, streams, views, master

    def run(
        self,
        name: str,
        *,
        as_of: int | None = None,
        sample: float = 1.0,
        checksums: bool = True,
        told: Told | None = None,
    ) -> Audited:
        """Audits a view: all windows, or as of an earlier commit those that were final then; a part of the keys."""
        with pinned(self._reader, f"audit of {name}"):
            return self._run(name, as_of, sample, checksums, told or (lambda phase, share: None))

    def _run(self, name: str, as_of: int | None, sample: float, checksums: bool, tell: Told) -> Audited:
        started = clock_time.perf_counter()
        layout, lowered = self._laid_out(name)
        view, moment = layout.plan.written, self._moment(layout)
        found = Audited(name, moment.commit if as_of is None else as_of)
        found.unable = self._unable(name, view, lowered, moment, as_of)
        if found.unable is None:
            if moment.fingerprint != view.fingerprint() or moment.definition != repr(view):
                found.problems.append(f"the definition is another than the state was made with: {moment.definition}")
            folder = Path(tempfile.mkdtemp(prefix="penstock-audit-"))
            try:
                tell("verifying", 0.0)
                if checksums:
                    found.problems += self._verified(view)
                if not found.problems:
                    self._compare(found, layout, lowered, moment, sample, folder, tell)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        found.seconds = clock_time.perf_counter() - started
        tell("done", 1.0)
        return found

    def basis(self, name: str) -> Basis:
        """From where on a view is what live made of it, or why that cannot be told."""
        layout, lowered = self._laid_out(name)
        moment = self._moment(layout)
        unable = self._unable(name, layout.plan.written, lowered, moment, None)
        if tables(layout.plan.written.input):
            unable = unable or "it is joined with tables: a run from the past joins with the versions of now"
        return Basis(moment.point, 0 if moment.point else moment.since, unable)

    def _laid_out(self, name: str) -> tuple[Layout, Lowered]:
        if name not in self._views:
            raise unknown("view", name, self._views)
        view = self._views[name]
        lowered = lower(self._streams, {name: view}, {}, Analyst(lambda: self._spark))
        return Layout(name, Plan(lowered.views[name], view, self._reader.closed().get(name, BEGINNING))), lowered

    # what the store has

    def _moment(self, layout: Layout, as_of: int | None = None) -> _Moment:
        """All that the store has of a view now; of its generations those that were there as of a commit."""
        columns = list(dict.fromkeys([*PLACE, "final", *layout.plan.keys, *compared(layout)]))
        name = layout.name
        sources = [source.name for source in layout.plan.written.input.sources]
        with self._reader.moment_of() as connection:

            def one(sql: str, *parameters: object) -> tuple[Any, ...]:
                found = connection.answer(sql, parameters)
                return found.row(0) if found.height else (None,) * found.width

            commit, now = one("SELECT coalesce(max(number), 0), coalesce(max(now), 0) FROM __commits")
            watermark, definition, fingerprint = one(
                "SELECT watermark, definition, fingerprint FROM __views WHERE name = ?1", name
            )
            if definition is None:
                raise PenstockError(f"the store has no view «{name}» yet", hint="run the app first")
            since, rested = one("SELECT since, rested FROM __catalog WHERE kind = 'view' AND name = ?1", name)
            point, number = one(
                "SELECT max(point), max(number) FROM __generations WHERE view = ?1 AND "
                "kind IN ('batch', 'as-live', 'replace', 'back-fill', 'rollback') "
                'AND "commit" <= coalesce(?2, "commit")',
                name, as_of,
            )  # fmt: skip
            (replayed,) = one(
                "SELECT max(number) FROM __generations WHERE view = ?1 AND kind = 'replay' AND number > ?2",
                name, number or 0,
            )  # fmt: skip
            (woken,) = one("SELECT value FROM __meta WHERE name = 'woken:' || ?1", name)
            late = sum(
                one("SELECT value FROM __counters WHERE name = ?1", f"{source}.late")[0] or 0 for source in sources
            )
            # Another definition has other columns, and nothing to compare with.
            known = fingerprint == layout.plan.written.fingerprint()
            directory = self._reader.directory
            rows = table_rows(connection, directory, layout, columns) if known else pl.DataFrame()
        return _Moment(
            commit if rested is None else min(commit, rested), now, BEGINNING if watermark is None else watermark,
            definition, fingerprint, since or 0, point or 0, "replay" if replayed else None, woken, late, rows,
        )  # fmt: skip

    def _unable(self, name: str, view: View, lowered: Lowered, moment: _Moment, as_of: int | None) -> str | None:
        """Why what the view should hold cannot be told from the master."""
        again = f"compute it anew from the master: penstock batch {name} --whole"
        needed = 0 if moment.point else moment.since
        for source in view.input.sources:
            since = self._master.since(source)
            if since is None:
                return f"the history of «{source.name}» is not kept"
            if since > needed:
                return f"the history of «{source.name}» begins after commit {since} only"
        if moment.kind == "replay":
            return f"it was replayed from a point of the log. {again}"
        if moment.woken is not None and moment.woken > moment.point:
            return f"it rested until commit {moment.woken}, and took no events. {again}"
        erased = [
            t.commit for t in self._reader.listing().tombstones if t.stream in {s.name for s in view.input.sources}
        ]
        if any(commit > moment.point for commit in erased):
            return f"events were erased at commit {max(erased)} that it still counts. {again}"
        try:
            versions = self._versions(name, view, moment, moment.commit if as_of is None else as_of)
        except Untold as why:
            return f"{why}. {again}"
        found = [lowered, *({} if versions is None else self._lowered_by(name, versions)).values()]
        if any(feed.prefix for one in found for feed in one.feeds.values()):
            untold = "rows that DataFrame code makes do not tell which commit brought them"
            if moment.late:
                return f"{untold}, and some came late"
            if moment.point and any(isinstance(one, Paired) for _, one in view.aggregates):
                return f"{untold}, and so not which answers of a batch run still stand"
        if as_of is not None and not moment.point <= as_of <= moment.commit:
            return (
                f"as of commit {as_of} there is nothing to compare with: choose from {moment.point} to {moment.commit}"
            )
        return None

    def _versions(self, name: str, view: View, moment: _Moment, commit: int) -> Versions | None:
        """The versions of tables that the view had up to a commit; None if it is joined with none."""
        if not tables(view.input):
            return None
        return Versions(self._reader, name, view, 0 if moment.point else moment.since, commit)

    def _lowered_by(self, name: str, versions: Versions) -> dict[int, Lowered]:
        """The view as the kernel takes it with the versions of each stretch, by the commit that this comes after."""
        analyst = Analyst(lambda: self._spark)
        return {
            stretch.after: lower(self._streams, {name: self._views[name]}, {}, analyst, versions.snapshots(stretch))
            for stretch in versions.stretches
        }

    def _pasts(
        self, name: str, view: View, moment: _Moment, commit: int
    ) -> tuple[dict[str, list[MasterPast]], Callable[[Past], Lowered] | None]:
        """The past of each stream and, where it had several versions of tables, by what each part of it is read."""
        after = 0 if moment.point else moment.since
        versions = self._versions(name, view, moment, commit)
        spans = [(after, commit)] if versions is None else [(one.after, one.through) for one in versions.stretches]
        pasts = {
            source.name: [self._master.past(self._streams[source.name], last, first) for first, last in spans]
            for source in view.input.sources
        }
        if versions is None:
            return pasts, None
        lowered = self._lowered_by(name, versions)

        def lowered_for(past: Past) -> Lowered:
            assert isinstance(past, MasterPast)
            return lowered[past.after]

        return pasts, lowered_for

    def _verified(self, view: View) -> list[str]:
        """What is wrong with the files of the master that the view is made of."""
        found = []
        for source in view.input.sources:
            for problem in verify(self._master, source.name):
                found.append(f"the file «{problem.file.path}» of the master: {problem.said}")
        return found

    # what it should have

    @contextmanager
    def _recomputed(
        self, layout: Layout, lowered: Lowered, moment: _Moment, commit: int, folder: Path, tell: Told
    ) -> Iterator[tuple[SqliteStore, int, Instant]]:
        """The view as of a commit in a store of its own, the events that went into it, and its watermark then."""
        plan, view, name = layout.plan, layout.plan.written, layout.name
        sources = [source.name for source in view.input.sources]
        decisions = Decisions.of(self._reader, name, sources, moment.point, commit)
        watermark = moment.watermark
        if commit < moment.commit:
            watermark = decisions.marks["after"][-1] if decisions.marks.height else BEGINNING
        pasts, lowered_for = self._pasts(name, view, moment, commit)
        reading = LiveReading(self._spark, name, lowered, moment.now, folder)
        reading.plan, reading.decisions = plan, decisions
        reading.lowered_for = lowered_for or reading.lowered_for
        reading.read(pasts, lambda done, total: tell("reading", done / total if total else 0.0))
        scratch = SqliteStore.open(folder / "scratch")
        scratch.lock()
        try:
            scratch.prepare({name: plan})
            for number, change in enumerate(reading.states(watermark, moment.now), 1):
                scratch.load(name, change)
                tell("computing", number / max(reading.count, 1))
            yield scratch, reading.rows, watermark
        finally:
            scratch.close()

    def at(self, name: str, commit: int) -> pl.DataFrame:
        """A view's table as it was after a commit, under the definition that it has now."""
        layout, lowered = self._laid_out(name)
        moment = self._moment(layout, commit)
        folder = Path(tempfile.mkdtemp(prefix="penstock-past-"))
        try:
            unable = self._unable(name, layout.plan.written, lowered, moment, commit)
            if unable is not None:
                raise PenstockError(f"the view «{name}» as of commit {commit} cannot be told: {unable}")
            with self._recomputed(layout, lowered, moment, commit, folder, lambda phase, share: None) as (scratch, *_):
                return scratch.query(f"SELECT * FROM {quoted(name)}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _compare(
        self, found: Audited, layout: Layout, lowered: Lowered, moment: _Moment, sample: float, folder: Path, tell: Told
    ) -> None:
        with self._recomputed(layout, lowered, moment, found.commit, folder, tell) as (scratch, events, watermark):
            columns = ", ".join(quoted(column) for column in moment.rows.columns)
            computed = scratch.query(f"SELECT {columns} FROM {layout.table}")
            sketches = self._sketches(layout, scratch)
        tell("comparing", 0.0)
        rule = scope(layout.plan, watermark, found.commit < moment.commit, sample)
        stored, computed = moment.rows.filter(rule), computed.filter(rule)
        found.rows, found.events = computed.height, events
        wrong = differing(layout, stored, computed, sketches)
        found.differences = wrong.height
        for row in wrong.head(SHOWN).iter_rows(named=True):
            found.shown.append(self._row(layout, row, found.commit))

    def _sketches(self, layout: Layout, scratch: SqliteStore) -> pl.DataFrame | None:
        """The partials of aggregates that may answer differently each time, by place."""
        columns = [f"{quoted(layout.stored[part])} AS {quoted(f'sketch:{name}')}" for name, part in sketchy(layout)]
        if not columns:
            return None
        return scratch.query(f"SELECT {', '.join(PLACE)}, {', '.join(columns)} FROM {layout.table}")

    def _row(self, layout: Layout, row: Mapping[str, Any], commit: int) -> Row:
        plan = layout.plan
        kind = row["__kind"]
        values = {
            name: (row[name], row[f"{name}:computed"])
            for name in compared(layout)
            if not name.startswith((":", "__")) and row[name] != row[f"{name}:computed"]
        }
        key = {name: row[name] if row[name] is not None else row[f"{name}:computed"] for name in plan.keys}
        start, end = row[START], row[END]
        if isinstance(plan.view.windows, Counted):
            window = f"elements {start} to {end}"
        elif isinstance(plan.view.windows, Global):
            window = "all time"
        else:
            window = f"{show_instant(start)} to {show_instant(end)}"
        return Row(key, window, kind, values, self._events(plan.written, key, start, end, commit))

    def _events(
        self, view: View, key: Mapping[str, Any], start: Instant, end: Instant, commit: int
    ) -> list[dict[str, object]]:
        """Some events that belong to a row, where they can be found by its key and window."""
        from pyspark.sql import functions as f

        found: list[dict[str, object]] = []
        for branch in branches(view.input):
            frame = self._master.past(self._streams[branch.source.name], commit).frame(
                self._spark, branch.source.schema.names
            )
            try:
                if view.windows.ends_in_event_time:
                    frame = frame.where((f.col("__at") >= start) & (f.col("__at") < end))
                rows = applied(frame, branch.steps)
                for name, text in view.keys:
                    rows = rows.where(f.expr(text).cast("string").eqNullSafe(f.lit(key[name]).cast("string")))
                found += rows.limit(EVENTS).toArrow().to_pylist()
            except Exception:  # a help for people: where it fails, the row itself is shown all the same
                continue
        return found[:EVENTS]
