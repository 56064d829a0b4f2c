"""Views of a store in tables or in segments, for tests that treat both alike."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from penstock.kernel.fire import Time
from penstock.kernel.plan import Plan
from penstock.kernel.reduce import combine
from penstock.kernel.step import step
from penstock.model.time import Instant
from penstock.state.pane_file import FiledPanes, filed, write_panes
from penstock.state.step import SegmentChanges, ShardStep, SteppedShard, fixed_time, steps
from penstock.store import Commit, SqliteStore
from penstock.store.base import Store
from penstock.store.block import KEY, view_panes
from penstock.store.segment_tables import table_changes


def commit_step(
    store: Store, view: str, deltas: Sequence[pl.DataFrame], time: Time, expire: Instant | None = None, shards: int = 3
) -> int:
    """One commit of a view. In segments its panes are in files, one of each shard, as tasks write many panes."""
    expired = {} if expire is None else {view: expire}
    sharded = store.sharded(view)
    if sharded is None:
        change = step(store.state(view).plan, deltas, store.state(view), time)
        return store.commit(
            Commit("tick", time.now, changes={view: change}, view_times={view: time.after}, expire=expired)
        )
    plan, root, run = sharded.plan, sharded.root, sharded.next_run
    work = ShardStep(view, plan, root, sharded.segments, sharded.closed, run, fixed_time(plan, time))
    made = SegmentChanges(root, f"{store.token}-{run}-{uuid.uuid4().hex}")
    results = list(steps(work, [combine(plan, list(deltas))] if deltas else [], shards))
    for result in results:
        made.add(result)
    change = made.change(plan)
    if change.panes.height:
        change = replace(change, panes=change.panes.clear(), filed=filed_panes(store, plan, results))
    return store.commit(
        Commit("tick", time.now, segments={view: change}, view_times={view: time.after}, expire=expired)
    )


def filed_panes(store: Store, plan: Plan, results: Sequence[SteppedShard], largest: int = 4) -> FiledPanes:
    """The panes of shards, in a file for each."""
    files = [
        write_panes(store.segments_at, f"{store.token}-{uuid.uuid4().hex}", view_panes(plan, result.panes))
        for result in results
        if result.panes.height
    ]
    return filed(store.segments_at, files, [KEY + name for name in plan.keys], largest, 1)


def table(store: Store, view: str) -> pl.DataFrame:
    """A view's table, as SQL shows it."""
    sharded = store.sharded(view)
    if sharded is None:
        return store.query(f"SELECT * FROM {view}")
    with tempfile.TemporaryDirectory() as folder:
        scratch = SqliteStore.open(folder)
        scratch.lock()
        scratch.prepare({view: sharded.plan})
        for change in table_changes(sharded):
            scratch.load(view, change)
        rows = scratch.query(f"SELECT * FROM {view}")
        scratch.close()
    return rows
