"""Views of a store in tables or in segments, for tests that treat both alike."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Sequence

import polars as pl

from penstock.kernel.fire import Time
from penstock.kernel.reduce import combine
from penstock.kernel.step import step
from penstock.model.time import Instant
from penstock.state.step import SegmentChanges, ShardStep, fixed_time, steps
from penstock.store import Commit, SqliteStore
from penstock.store.base import Store
from penstock.store.segment_tables import table_changes


def commit_step(
    store: Store, view: str, deltas: Sequence[pl.DataFrame], time: Time, expire: Instant | None = None, shards: int = 3
) -> int:
    """One commit of a view."""
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
    for result in steps(work, [combine(plan, list(deltas))] if deltas else [], shards):
        made.add(result)
    change = made.change(plan)
    return store.commit(
        Commit("tick", time.now, segments={view: change}, view_times={view: time.after}, expire=expired)
    )


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
