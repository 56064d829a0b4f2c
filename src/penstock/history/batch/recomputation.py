"""Views computed again from the history and the recorded decisions, as live had them after a commit."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from penstock.errors import PenstockError, unknown
from penstock.history.batch.as_live import Decisions, LiveReading
from penstock.history.batch.moment import ViewMoment, moment_of
from penstock.history.batch.versions import UnknownVersions, Versions
from penstock.history.events.event_history import EventHistory, HistoryPast
from penstock.history.events.past import Past
from penstock.kernel.plan import Plan
from penstock.model.aggregates import Paired
from penstock.model.stream import Stream
from penstock.model.table import tables
from penstock.model.time import BEGINNING, Instant
from penstock.model.view import View
from penstock.runtime.epoch.analyst import Analyst
from penstock.runtime.epoch.catalyst import lower
from penstock.runtime.epoch.feeds import Lowered
from penstock.store import SqliteStore
from penstock.store.reader import Reader
from penstock.store.tables import Layout, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Called with what is being done, and which share of it is done.
OnProgress = Callable[[str, float], None]


@dataclass(frozen=True)
class Basis:
    """What live held can be computed again: up to `point` nothing was late; rows are of the commits after `after`."""

    point: int
    after: int
    unable: str | None


class Recomputation:
    """Computes the views of one app from their history, or explains why it cannot."""

    def __init__(
        self,
        spark: SparkSession,
        reader: Reader,
        streams: Mapping[str, Stream],
        views: Mapping[str, View],
        history: EventHistory,
    ) -> None:
        self._spark, self._reader, self._streams, self._views, self._history = spark, reader, streams, views, history

    def basis(self, name: str) -> Basis:
        """From where on a view is what live made of it, or why that is unknown."""
        layout, lowered = self.laid_out(name)
        moment = moment_of(self._reader, layout)
        unable = self.unable(name, layout.plan.written, lowered, moment, None)
        if tables(layout.plan.written.input):
            unable = unable or "it is joined with tables, and a batch run joins with their current versions"
        return Basis(moment.point, 0 if moment.point else moment.since, unable)

    def laid_out(self, name: str) -> tuple[Layout, Lowered]:
        """A view as the store has it, and as the kernel takes it."""
        if name not in self._views:
            raise unknown("view", name, self._views)
        view = self._views[name]
        lowered = lower(self._streams, {name: view}, {}, Analyst(lambda: self._spark))
        return Layout(name, Plan(lowered.views[name], view, self._reader.closed().get(name, BEGINNING))), lowered

    def unable(self, name: str, view: View, lowered: Lowered, moment: ViewMoment, as_of: int | None) -> str | None:
        """Why the history cannot show what the view should hold."""
        again = f"recompute it from the history: penstock batch {name} --whole"
        needed = 0 if moment.point else moment.since
        for source in view.input.sources:
            since = self._history.since(source)
            if since is None:
                return f"the history of '{source.name}' is not kept"
            if since > needed:
                return f"the history of '{source.name}' begins after commit {since} only"
        if moment.kind == "replay":
            return f"it was replayed from a point of the log. {again}"
        if moment.woken is not None and moment.woken > moment.point:
            return f"it was suspended until commit {moment.woken} and took no events. {again}"
        if moment.retained is not None and moment.retained > max(moment.point, moment.since):
            return f"up to commit {moment.retained} it had another retention. {again}"
        erased = [
            t.commit for t in self._reader.listing().tombstones if t.stream in {s.name for s in view.input.sources}
        ]
        if any(commit > moment.point for commit in erased):
            return f"events were erased at commit {max(erased)} that it still counts. {again}"
        try:
            versions = self._versions(name, view, moment, moment.commit if as_of is None else as_of)
        except UnknownVersions as why:
            return f"{why}. {again}"
        readings = [lowered, *({} if versions is None else self._lowered_by(name, versions)).values()]
        if any(feed.prefix for one in readings for feed in one.feeds.values()):
            cause = "rows made by DataFrame code do not show which commit brought them"
            if moment.late:
                return f"{cause}, and some came late"
            if view.forgets:
                return f"{cause}, so it is unknown which keys had expired before them"
            if moment.point and any(isinstance(one, Paired) for _, one in view.aggregates):
                return f"{cause}, so it is unknown which results of a batch run are still valid"
        if as_of is not None and not moment.point <= as_of <= moment.commit:
            return (
                f"as of commit {as_of} there is nothing to compare with: choose from {moment.point} to {moment.commit}"
            )
        return None

    def _versions(self, name: str, view: View, moment: ViewMoment, commit: int) -> Versions | None:
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
        self, name: str, view: View, moment: ViewMoment, commit: int
    ) -> tuple[dict[str, list[HistoryPast]], Callable[[Past], Lowered] | None]:
        """The past of each stream and, where it had several versions of tables, by what each part of it is read."""
        after = 0 if moment.point else moment.since
        versions = self._versions(name, view, moment, commit)
        spans = [(after, commit)] if versions is None else [(one.after, one.through) for one in versions.stretches]
        pasts = {
            source.name: [self._history.past(self._streams[source.name], last, first) for first, last in spans]
            for source in view.input.sources
        }
        if versions is None:
            return pasts, None
        lowered = self._lowered_by(name, versions)

        def lowered_for(past: Past) -> Lowered:
            assert isinstance(past, HistoryPast)
            return lowered[past.after]

        return pasts, lowered_for

    @contextmanager
    def recomputed(
        self, layout: Layout, lowered: Lowered, moment: ViewMoment, commit: int, folder: Path, tell: OnProgress
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
        layout, lowered = self.laid_out(name)
        moment = moment_of(self._reader, layout, commit)
        folder = Path(tempfile.mkdtemp(prefix="penstock-past-"))
        try:
            unable = self.unable(name, layout.plan.written, lowered, moment, commit)
            if unable is not None:
                raise PenstockError(f"the view '{name}' cannot be computed as of commit {commit}: {unable}")
            with self.recomputed(layout, lowered, moment, commit, folder, lambda phase, share: None) as (scratch, *_):
                return scratch.query(f"SELECT * FROM {quoted(name)}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
