"""What one commit works on: it grows operator by operator."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import polars as pl

from penstock.kernel.reduce import combine
from penstock.model.time import Instant
from penstock.runtime.commit.replay import PastCommit
from penstock.runtime.commit.view_runtime import ViewRuntime
from penstock.runtime.epoch.gather import Epoch, entering, shown
from penstock.runtime.epoch.job import Job
from penstock.state.operator_state import OperatorChange
from penstock.state.spool import Spool, SpooledDeltas
from penstock.store.file import File
from penstock.store.marks import ReaderTime
from penstock.store.operator_timings import OperatorTiming


@dataclass
class CommitWork:
    """Deltas of views and rows for operators, from the commit's source and from operators that have stepped already.

    `attempt` ends with the commit, and undoes what it began if it fails.
    """

    number: int  # above that of any earlier commit of these views
    now: Instant
    spool: Spool
    attempt: ExitStack
    deltas: dict[str, pl.DataFrame] = field(default_factory=dict)
    spooled: dict[str, list[SpooledDeltas]] = field(default_factory=dict)
    entering: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    shown: dict[str, pl.DataFrame] = field(default_factory=dict)
    parts: dict[str, list[Epoch]] = field(default_factory=dict)  # by stream
    refused: list[Mapping[str, pl.DataFrame]] = field(default_factory=list)
    failed: dict[str, pl.DataFrame] = field(default_factory=dict)  # by operator, dead letters of its own
    files: list[File] = field(default_factory=list)
    operators: dict[str, OperatorChange] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    replay: dict[str, PastCommit] = field(default_factory=dict)  # of operators that begin with the past
    timings: dict[str, OperatorTiming] = field(default_factory=dict)  # of the operators that had something to do
    times: dict[str, dict[str, ReaderTime]] = field(default_factory=dict)  # of the readers of operators, before

    def take(
        self,
        stream: str,
        jobs: Mapping[str, Job],
        parts: Mapping[str, Epoch],
        deltas: Mapping[str, pl.DataFrame],
        spooled: Mapping[str, list[SpooledDeltas]],
        views: Mapping[str, ViewRuntime],
    ) -> None:
        """What the rows of a stream came to."""
        self.parts.setdefault(stream, []).extend(parts.values())
        for name, rows in deltas.items():
            known = self.deltas.get(name)
            self.deltas[name] = rows if known is None else combine(views[name].plan, [known, rows])
        for name, files in spooled.items():
            self.spooled.setdefault(name, []).extend(files)
        for name, frames in entering(jobs, parts).items():
            self.entering.setdefault(name, []).extend(frames)
        for name, rows in shown(jobs, parts).items():
            self.shown[name] = pl.concat([self.shown[name], rows]) if name in self.shown else rows

    def count(self, counters: Mapping[str, int]) -> None:
        """Adds to counters."""
        for name, value in counters.items():
            self.counters[name] = self.counters.get(name, 0) + value
