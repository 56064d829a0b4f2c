"""The audit: recomputes views from the history and the recorded decisions, and compares every row with the store.

What is compared is what people read and, where it is exact, the state behind it. A row that differs is shown with both
values and with events of the history that belong to it. The app may run meanwhile: all is judged as of one commit.
"""

from __future__ import annotations

import shutil
import tempfile
import time as clock_time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from penstock.history.batch.differences import PLACE, differing, scope, sketchy
from penstock.history.batch.evidence import Evidence, Row
from penstock.history.batch.moment import ViewMoment, moment_of
from penstock.history.batch.recomputation import OnProgress, Recomputation
from penstock.history.events.event_history import EventHistory
from penstock.history.events.pins import pinned
from penstock.history.events.verify import verify
from penstock.model.stream import Stream
from penstock.model.view import View
from penstock.runtime.epoch.feeds import Lowered
from penstock.store import Reader, SqliteStore
from penstock.store.tables import Layout, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How many rows that differ are shown.
SHOWN: Final = 10


@dataclass
class AuditResult:
    """The result of an audit of a view. `unable` says why there is none."""

    view: str
    commit: int
    rows: int = 0
    events: int = 0
    differences: int = 0
    shown: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # of the history, or of the definition
    unable: str | None = None
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        return not self.differences and not self.problems


class Audit:
    """Audits the views of one app, with whatever Spark session there is."""

    def __init__(
        self,
        spark: SparkSession,
        reader: Reader,
        streams: Mapping[str, Stream],
        views: Mapping[str, View],
        history: EventHistory,
    ) -> None:
        self._reader, self._history = reader, history
        self._past = Recomputation(spark, reader, streams, views, history)
        self._evidence = Evidence(spark, streams, history)

    def run(
        self,
        name: str,
        *,
        as_of: int | None = None,
        sample: float = 1.0,
        checksums: bool = True,
        on_progress: OnProgress | None = None,
    ) -> AuditResult:
        """Audits a view: all windows, or as of an earlier commit those that were final then; a part of the keys."""
        with pinned(self._reader, f"audit of {name}"):
            return self._run(name, as_of, sample, checksums, on_progress or (lambda phase, share: None))

    def _run(self, name: str, as_of: int | None, sample: float, checksums: bool, tell: OnProgress) -> AuditResult:
        started = clock_time.perf_counter()
        layout, lowered = self._past.laid_out(name)
        view, moment = layout.plan.written, moment_of(self._reader, layout)
        result = AuditResult(name, moment.commit if as_of is None else as_of)
        result.unable = self._past.unable(name, view, lowered, moment, as_of)
        if result.unable is None:
            if moment.fingerprint != view.fingerprint() or moment.definition != repr(view):
                result.problems.append(
                    f"the definition differs from the one that computed the state: {moment.definition}"
                )
            folder = Path(tempfile.mkdtemp(prefix="penstock-audit-"))
            try:
                tell("verifying", 0.0)
                if checksums:
                    result.problems += self._verified(view)
                if not result.problems:
                    self._compare(result, layout, lowered, moment, sample, folder, tell)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        result.seconds = clock_time.perf_counter() - started
        tell("done", 1.0)
        return result

    def _verified(self, view: View) -> list[str]:
        """What is wrong with the files of the history that the view is made of."""
        messages = []
        for source in view.input.sources:
            for problem in verify(self._history, source.name):
                messages.append(f"the file '{problem.file.path}' of the history: {problem.message}")
        return messages

    def _compare(
        self,
        result: AuditResult,
        layout: Layout,
        lowered: Lowered,
        moment: ViewMoment,
        sample: float,
        folder: Path,
        tell: OnProgress,
    ) -> None:
        with self._past.recomputed(layout, lowered, moment, result.commit, folder, tell) as (
            scratch,
            events,
            watermark,
        ):
            columns = ", ".join(quoted(column) for column in moment.rows.columns)
            computed = scratch.query(f"SELECT {columns} FROM {layout.table}")
            sketches = self._sketches(layout, scratch)
        tell("comparing", 0.0)
        rule = scope(layout.plan, watermark, result.commit < moment.commit, sample)
        stored, computed = moment.rows.filter(rule), computed.filter(rule)
        result.rows, result.events = computed.height, events
        wrong = differing(layout, stored, computed, sketches)
        result.differences = wrong.height
        for row in wrong.head(SHOWN).iter_rows(named=True):
            result.shown.append(self._evidence.row(layout, row, result.commit))

    def _sketches(self, layout: Layout, scratch: SqliteStore) -> pl.DataFrame | None:
        """The partials of aggregates that may answer differently each time, by place."""
        columns = [f"{quoted(layout.stored[part])} AS {quoted(f'sketch:{name}')}" for name, part in sketchy(layout)]
        if not columns:
            return None
        return scratch.query(f"SELECT {', '.join(PLACE)}, {', '.join(columns)} FROM {layout.table}")
