"""What the tasks of an epoch do, feed by feed, and the deltas that come back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from penstock.history.events.writer import Keeping
from penstock.kernel.offsets import retried_epoch
from penstock.kernel.plan import Plan
from penstock.kernel.reduce import combine
from penstock.kernel.share import Sharing, share
from penstock.model.time import BEGINNING, Instant
from penstock.runtime.commit.registry import Registry
from penstock.runtime.epoch.feeds import Feed
from penstock.runtime.epoch.gather import Epoch
from penstock.runtime.epoch.job import Job, OperatorInput, RowsOut
from penstock.runtime.epoch.origin import EpochOrigin
from penstock.state.spool import Spool, SpooledDeltas


class Jobs:
    """Makes the jobs of an engine's epochs. A sample of an epoch's rows decides which views share a pass."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._version = -1  # of the registry, when views began to share
        self._sharing: dict[str, Sharing] = {}  # by feed

    def of(
        self,
        feed: Feed,
        columns: tuple[str, ...],
        source: EpochOrigin,
        now: Instant,
        keeping: Keeping | None,
        spool: Spool | None = None,
        before: Mapping[str, Instant] | None = None,
    ) -> Job:
        """What the tasks do with a feed. `before` are the watermarks in force, where time has moved already."""
        registry = self._registry
        if self._version != registry.version:
            self._version = registry.version
            self._sharing.clear()
        reader = source.reader
        views = {
            name: view
            for name, view in registry.fed.items()
            if feed.name in view.plan.sources and reader in (None, name)
        }
        tracker = registry.trackers.get(feed.source.name)
        outputs = tuple(
            RowsOut(name, Plan(output.view), output.columns)
            for name, output in registry.lowered.outputs.items()
            if feed.name in Plan(output.view).sources and reader in (None, name)
        )
        alone = Sharing(feed.name, tuple(view.plan for view in views.values()), ())
        return Job(
            feed.source,
            feed.stream,
            feed.schema.names if feed.prefix else columns,
            tuple(views),
            alone if reader is not None else self._sharing.get(feed.name, alone),
            tuple(view.time.watermark if before is None else before[name] for name, view in views.items()),
            source.epoch if source.retried is None else retried_epoch(source.epoch),
            now,
            BEGINNING if tracker is None else tracker.newest,
            sampled=reader is None and feed.name not in self._sharing,
            place=feed.place,
            first_task=source.first_task,
            outputs=outputs,
            inputs=tuple(into for into in self._inputs(feed) if reader in (None, into.stream)),
            keeping=keeping if feed.place is None else None,
            decoded=source.decoded or (source.retried is not None and not source.from_files),
            positions=source.positions if feed.place is None else None,
            spool=None if spool is None else self._spool(spool, tuple(views)),
            watch=registry.shards.watch,
        )

    def _inputs(self, feed: Feed) -> tuple[OperatorInput, ...]:
        """The operators' inputs that read a feed."""
        operators = self._registry.operators.values()
        return tuple(into for operator in operators for into in operator.inputs if feed.name in into.plan.sources)

    def _spool(self, spool: Spool, views: tuple[str, ...]) -> Spool | None:
        """The spool of a feed's large views. What a generation needs too comes to the driver."""
        registry = self._registry
        pending = {generation.of or hidden for hidden, generation in registry.generations.items()}
        plans = {name: view.plan for name, view in registry.views.items() if name not in pending}
        receivers = [
            to
            for number, name in enumerate(views)
            if name in plans and (to := registry.shards.receivers(number, name, plans[name])) is not None
        ]
        return replace(spool, receivers=tuple(receivers)) if receivers else None

    def spooled(self, jobs: Mapping[str, Job], parts: Mapping[str, Epoch]) -> dict[str, list[SpooledDeltas]]:
        """By view the deltas that wait in files."""
        waiting: dict[str, list[SpooledDeltas]] = {}
        for feed, part in parts.items():
            for number, deltas in part.spooled.items():
                waiting.setdefault(jobs[feed].views[number], []).extend(deltas)
        return waiting

    def deltas(self, jobs: Mapping[str, Job], parts: Mapping[str, Epoch]) -> dict[str, pl.DataFrame]:
        """Each view's deltas, from all the feeds that it reads."""
        frames: dict[str, list[pl.DataFrame]] = {}
        for feed, part in parts.items():
            job, sharing = jobs[feed], part.sharing
            if part.sample is not None and job.views:
                self._sharing[feed] = share(feed, job.sharing.plans, part.sample, max(part.rows, 1))
            if part.batches and sharing is not None:
                for view, deltas in zip(job.views, sharing.deltas(part.batches, job.watermarks), strict=True):
                    frames.setdefault(view, []).append(deltas)
        fed = self._registry.fed
        return {view: combine(fed[view].plan, several) for view, several in frames.items()}
