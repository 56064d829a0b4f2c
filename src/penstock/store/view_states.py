"""The state of a store's views: each is in the store's own tables, or in segments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, replace

from penstock.kernel.plan import Plan
from penstock.kernel.step import Change
from penstock.model.time import Instant
from penstock.state.pane_file import PaneFile as PaneFile
from penstock.state.segment import Segment as Segment
from penstock.state.segment_state import SegmentState as SegmentState
from penstock.store.base import Commit, StoreError
from penstock.store.connection import Connection
from penstock.store.pane_files import forget_pane_files, pane_files, removed_pane_files
from penstock.store.segments import (
    Sharding,
    add_sharding,
    all_segments,
    forget_segments,
    replace_segments,
    replaced_segments,
    segments_of,
    shardings,
)
from penstock.store.sharded_view import ShardedView as ShardedView
from penstock.store.sharded_view import move_to_segments, rewritten
from penstock.store.state import SqlState as SqlState
from penstock.store.tables import Layout as Layout
from penstock.store.views import drop, prepare
from penstock.store.write import ViewState, closing_bounds


@dataclass(frozen=True)
class Access:
    """How the parts of a store reach its database. `root` is the folder of segments.

    Inside `exclusive` no other thread has a transaction: what a part remembers then is what the store lists.
    """

    transaction: Callable[[], AbstractContextManager[Connection]]
    read: Callable[[], AbstractContextManager[Connection]]
    exclusive: Callable[[], AbstractContextManager[None]]
    token: Callable[[], int]
    root: str


class ViewStates:
    """The views that are prepared, by name: those in `tables`, and those that are `sharded`."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.tables: dict[str, SqlState] = {}
        self.sharded: dict[str, ShardedView] = {}

    def moment(self) -> tuple[dict[str, SqlState], dict[str, ShardedView]]:
        """The views as they are now, to go back to."""
        return {name: copy(state) for name, state in self.tables.items()}, dict(self.sharded)

    def go_back(self, moment: tuple[dict[str, SqlState], dict[str, ShardedView]]) -> None:
        """A transaction has failed: the views are as before it."""
        self.tables, self.sharded = moment

    def prepare(self, views: Mapping[str, Plan], statements: Mapping[str, str]) -> None:
        """Makes missing tables; a view with another definition is refused, one that fires otherwise is migrated."""
        with self._access.transaction() as connection:
            sharded = shardings(connection)
            stale = prepare(connection, views, statements, sharded)
            (now,) = connection.rows("SELECT coalesce(max(now), 0) FROM __commits").row(0)
            for name, plan in views.items():
                if name not in sharded:
                    self.tables[name] = self.in_tables(Layout(name, plan, connection.dialect), connection)
                    continue
                self.tables.pop(name, None)
                view = self._loaded(connection, sharded[name], plan)
                if name in stale or not view.is_current:
                    view = rewritten(connection, view, name in stale, self._access.token(), now)
                self.sharded[name] = view
            for name, closed in connection.rows("SELECT name, closed FROM __views WHERE closed IS NOT NULL").rows():
                if name in views:
                    self.note_closed(name, closed)

    def _loaded(self, connection: Connection, sharding: Sharding, plan: Plan) -> ShardedView:
        segments = segments_of(connection, sharding.owner)
        return ShardedView(sharding.owner, self._access.root, sharding.shards, segments, sharding.expired, plan=plan)

    def in_tables(self, layout: Layout, connection: Connection) -> SqlState:
        """The state of a view in the store's own tables."""
        return SqlState(layout, connection, self._access.read)

    def drop(self, view: str) -> None:
        """Removes a view with its state."""
        with self._access.transaction() as connection:
            drop(connection, view)
            self.tables.pop(view, None)
            self.sharded.pop(view, None)

    # what the kernel reads

    def state(self, view: str) -> SqlState | SegmentState:
        """A view's open windows, for the kernel."""
        return self.sharded[view].state() if view in self.sharded else self.tables_of(view)

    def tables_of(self, view: str) -> SqlState:
        """A view's state in the store's own tables."""
        if view not in self.tables:
            raise StoreError(f"the view '{view}' is not prepared", hint="name it in prepare({…}) first")
        return self.tables[view]

    def load(self, view: str, change: Change) -> Plan:
        """Puts rows into a view's own tables; its plan."""
        state = self.tables_of(view)
        with self._access.transaction():
            state.apply(change)
        return state.plan

    def count_open(self, view: str, most: int) -> int:
        """How many open windows a view in the store's own tables has, counted up to `most`."""
        table = self.tables_of(view).layout.table
        with self._access.read() as connection:
            sql = f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE final = 0 LIMIT {most}) open_windows"
            return int(connection.rows(sql).item())

    def index(self, view: str, columns: Sequence[str]) -> None:
        """Adds an index, so that lookups by these columns of a view are fast."""
        if view in self.sharded:
            raise StoreError(
                f"the view '{view}' cannot have an index: its rows are in segments",
                hint="leave the index out: rows are sorted by window and key already",
            )
        with self._access.transaction() as connection:
            connection.script(self.tables_of(view).layout.create_index(columns))

    # segments

    def shard(self, view: str, shards: int) -> None:
        """Moves the state of a view into segments, or cuts it into another number of shards."""
        access = self._access
        with access.exclusive():
            with access.transaction() as connection:
                add_sharding(connection, view, shards)
                moved = self.sharded.get(view)
                if moved is not None:
                    moved = replace(moved, shards=shards)
                else:
                    state = self.tables_of(view)
                    moved = move_to_segments(connection, state.layout, access.root, shards, access.token())
                    moved = replace(moved, closed=state.closed)
            self.tables.pop(view, None)
            self.sharded[view] = moved

    def replace_segments(self, owner: str, old: Collection[Segment], new: Sequence[Segment], now: Instant) -> bool:
        """Lists segments in the place of others; false if those are not all listed any more."""
        with self._access.transaction() as connection:
            if not set(old) <= set(segments_of(connection, owner)):
                return False
            replace_segments(connection, old, new, now)
        if owner in self.sharded:
            self.sharded[owner] = self.sharded[owner].changed(new, tuple(old))
        return True

    def needed_segments(self) -> list[Segment]:
        """All segments that are listed, also those that were replaced. No transaction is open meanwhile."""
        with self._access.read() as connection:
            return [*all_segments(connection), *replaced_segments(connection, 1 << 62)]

    def needed_pane_files(self) -> list[PaneFile]:
        """All files of panes that are listed, also those that nobody needs any more."""
        with self._access.read() as connection:
            return [*pane_files(connection), *removed_pane_files(connection, 1 << 62)]

    def removed_pane_files(self, before: Instant) -> list[PaneFile]:
        """The files of panes that everyone had before an instant, and which may still be there."""
        with self._access.read() as connection:
            return removed_pane_files(connection, before)

    def forget_pane_files(self, files: Collection[PaneFile]) -> None:
        """These files of panes are gone."""
        with self._access.transaction() as connection:
            forget_pane_files(connection, files)

    def replaced_segments(self, before: Instant) -> list[Segment]:
        """The segments that were replaced before an instant and whose files may still be there."""
        with self._access.read() as connection:
            return list(replaced_segments(connection, before))

    def forget_segments(self, segments: Collection[Segment]) -> None:
        """The files of replaced segments are gone."""
        with self._access.transaction() as connection:
            forget_segments(connection, segments)

    # commits

    def of_commit(self, record: Commit) -> dict[str, ViewState]:
        """The states that a commit changes."""
        stacked = (name for stack, _ in record.stacked for name in stack.names)
        names = {*record.changes, *record.segments, *stacked, *record.expire}
        return {name: self.sharded[name] if name in self.sharded else self.tables_of(name) for name in names}

    def listed(self, connection: Connection, views: Collection[str]) -> dict[str, tuple[Segment, ...]]:
        """The segments of those of some views that are in segments."""
        return {name: segments_of(connection, name) for name in views if name in self.sharded}

    def committed(
        self, record: Commit, states: Mapping[str, ViewState], expired: Mapping[str, tuple[Segment, ...]]
    ) -> None:
        """A commit is written. `expired` are the segments of views of which windows have gone."""
        for name, change in record.segments.items():
            self.sharded[name] = self.sharded[name].changed(change.added)
        for name, segments in expired.items():
            self.sharded[name] = replace(self.sharded[name], segments=segments, expired=record.expire[name])
        for name, bound in closing_bounds(record, states).items():
            self.note_closed(name, bound)

    def note_closed(self, view: str, bound: Instant) -> None:
        """All windows of a view that end up to here are final."""
        if view in self.sharded:
            self.sharded[view] = replace(self.sharded[view], closed=bound)
        elif view in self.tables:
            self.tables[view].closed = bound
